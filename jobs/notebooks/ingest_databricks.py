# Databricks notebook source
# MAGIC %md
# MAGIC # A consumer group into a table of the catalog
# MAGIC
# MAGIC It runs where Spark is Spark Connect, as standard compute is: all that it asks of Spark is SQL and DataFrames,
# MAGIC and tables have names, not paths. Install the package as a library of the cluster first. The notebook's machine
# MAGIC must reach masters and brokers, the executors the brokers.
# MAGIC
# MAGIC Fill in the widgets. With a user, the password is the key of a secret scope that has the user's name.

# COMMAND ----------

# Databricks gives a notebook spark, dbutils and display.
# ruff: noqa: F821
# mypy: disable-error-code="name-defined"
dbutils.widgets.text("master_servers", "", "HOST:PORT of the masters")
dbutils.widgets.text("master_web_port", "8080", "Their web port")
dbutils.widgets.text("consumer_group", "", "Consumer group")
dbutils.widgets.text("topic", "", "Topic")
dbutils.widgets.text("schema", "id BIGINT NOT NULL, name STRING", "Columns of its JSON")
dbutils.widgets.text("target", "main.lake.clicks", "Table for the rows")
dbutils.widgets.text("user", "", "User, if the cluster requires one")
dbutils.widgets.text("secret_scope", "", "Secret scope of the user's password")
given = {
    name: dbutils.widgets.get(name)
    for name in ("master_servers", "master_web_port", "consumer_group", "topic", "schema", "target", "user")
}

# COMMAND ----------

from pyspark_tubeclient import Ingest

access = {"masterWebPort": given["master_web_port"]}
if given["user"]:
    password = dbutils.secrets.get(dbutils.widgets.get("secret_scope"), given["user"])
    access |= {"authUser": given["user"], "authPassword": password}
settings = {
    "master_servers": given["master_servers"],
    "consumer_group": given["consumer_group"],
    "topics": [given["topic"]],
    "target": given["target"],
    "bad_records": f"{given['target']}_bad",
    "format": "json",
    "schema": given["schema"],
    "source_options": access,
}

# COMMAND ----------

# MAGIC %md
# MAGIC ## What there is
# MAGIC
# MAGIC `run` ends when all is read. Run it again, and it reads what came since: the table's newest commit says where.

# COMMAND ----------

job = Ingest(spark, **settings)
print(job.run())
display(spark.table(given["target"]))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bad records
# MAGIC
# MAGIC Each record is in the target or here. After you have corrected the schema, `retry` moves those that are good.

# COMMAND ----------

display(job.bad_records())
print(job.retry(dry_run=True))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Every ten seconds
# MAGIC
# MAGIC It runs beside the notebook's other cells until `stop`. In a job of Databricks take `run` with a trigger.

# COMMAND ----------

job = Ingest(spark, trigger="10s", **settings).start()
job.awaitTermination(timeout=15)
job

# COMMAND ----------

job.stop()
print(job.status, job.exception())
