# Databricks notebook source
# MAGIC %md
# MAGIC # TubeMQ, Spark and Delta in one notebook
# MAGIC
# MAGIC It starts a TubeMQ of its own, sends messages, and reads them with Spark: as a batch, as a stream into a Delta
# MAGIC table, again with a new checkpoint, and an InLong stream into a Delta table, each record once. It takes a minute
# MAGIC or two and needs nothing but this machine.
# MAGIC
# MAGIC In Jupyter the kernel's Python needs the package: `pip install '.[quickstart,delta]'` in a clone of it, and
# MAGIC JDK 17 or newer. The environment need not be activated. The notebook is stored without outputs: they would
# MAGIC show another run's ports and times.
# MAGIC
# MAGIC On Databricks take a cluster of a single node, as the TubeMQ listens on the driver alone, with the package as
# MAGIC a library.

# COMMAND ----------

import tempfile
from pathlib import Path

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig

folder = Path(tempfile.mkdtemp(prefix="tubeclient-quickstart-"))
topics = [TopicConfig("clicks", stores=2, partitions=2), TopicConfig("shop")]
tube = EmbeddedTubeMQ(folder / "tubemq", topics, brokers=2).start()
print("master", tube.master_address, "brokers", tube.broker_addresses)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Send

# COMMAND ----------

import json

from tubeclient import ClientSettings, Producer

settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)


def send_clicks(first: int, count: int) -> None:
    """Send clicks with these numbers, and wait for the brokers' answers."""
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        bodies = [json.dumps({"id": n, "page": f"/page/{n % 7}"}).encode() for n in range(first, first + count)]
        for result in producer.submit_many("clicks", bodies):
            result.result(timeout=30)


send_clicks(0, 1_000)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Read as a batch
# MAGIC
# MAGIC `session` makes a SparkSession whose workers have this notebook's Python, or returns the one that runs. The
# MAGIC first start downloads Delta's jars.

# COMMAND ----------

from pyspark_tubeclient import session

spark = session(app_name="quickstart")
options = {
    "masterServers": tube.master_address,
    "masterWebPort": str(tube.master_web_port),
    "consumerGroup": "clicks_etl",
    "subscribe": "clicks",
}
clicks = spark.read.format("tubeclient").options(**options).load()
clicks.selectExpr("partitionKey", "messageId", "CAST(value AS STRING) AS click").show(5, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Stream into Delta
# MAGIC
# MAGIC `maxOffsetsPerTrigger` makes several batches of what there is, and the listener gets the lag after each.
# MAGIC `offsetsTable` keeps how far the group has read.

# COMMAND ----------

import queue

from pyspark.sql import functions as F

from pyspark_tubeclient import LagListener, QueryLag

lags: queue.Queue[QueryLag] = queue.Queue()
listener = LagListener(lags.put)
spark.streams.addListener(listener)


def run_stream(checkpoint: str, starting_offsets: str) -> None:
    """Read all there is now into the Delta table."""
    source = spark.readStream.format("tubeclient").options(**options)
    source = source.option("startingOffsets", starting_offsets).option("sourceCount", 2)
    source = source.option("maxOffsetsPerTrigger", 400).option("offsetsTable", str(folder / "offsets"))
    rows = source.load().select(F.from_json(F.col("value").cast("string"), "id INT, page STRING").alias("click"))
    sink = rows.select("click.*").writeStream.format("delta").trigger(availableNow=True)
    query = sink.option("checkpointLocation", str(folder / checkpoint)).start(str(folder / "clicks"))
    if not query.awaitTermination(180):
        query.stop()
        raise TimeoutError("the query did not end within 180 s")


run_stream("checkpoint-1", "earliest")
spark.read.format("delta").load(str(folder / "clicks")).groupBy("page").count().orderBy("page").show()

# COMMAND ----------

# MAGIC %md
# MAGIC The lag after the first batch:

# COMMAND ----------

lags.get(timeout=60)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The offsets table
# MAGIC
# MAGIC Anyone can query it, with SQL too.

# COMMAND ----------

from pyspark_tubeclient import GroupKey, OffsetsTable

offsets = OffsetsTable(str(folder / "offsets"))
offsets.latest(GroupKey("clicks_etl", ["clicks"]))

# COMMAND ----------

rows_of_group = spark.read.format("delta").load(str(folder / "offsets")).where("consumerGroup = 'clicks_etl'")
rows_of_group.select("brokerId", "topic", "partitionId", "nextOffset", "nodeId", "runEpoch", "updatedAt").show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Go on with a new checkpoint
# MAGIC
# MAGIC With `startingOffsets=group` a new checkpoint begins where the table has the group. Each click is in the table
# MAGIC once.

# COMMAND ----------

send_clicks(1_000, 500)
run_stream("checkpoint-2", "group")
spark.streams.removeListener(listener)
target = spark.read.format("delta").load(str(folder / "clicks"))
print(target.count(), "rows,", target.select("id").distinct().count(), "different")
assert target.count() == target.select("id").distinct().count() == 1_500

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cluster, and who would read what
# MAGIC
# MAGIC The partitions of three nodes, by the default strategy.

# COMMAND ----------

from tubeclient import Admin
from tubeclient.assignment import assign

admin = Admin(settings)
[deployed] = admin.topics(["clicks"])
deployed

# COMMAND ----------

assign("modulo", deployed.partitions(), 3)

# COMMAND ----------

# MAGIC %md
# MAGIC ## An InLong stream into a table, each record once
# MAGIC
# MAGIC InLong's DataProxy packs many records into one message. `payload=inlong` makes each record a row. `Ingest`
# MAGIC writes them with types to a Delta table, whose own commits say where the next run goes on. On Databricks the
# MAGIC table has a name, elsewhere it is a folder.

# COMMAND ----------

import os

from pyspark_tubeclient import Ingest
from tubeclient.inlong import RecordGroup, encode_pack

stream = {"groupId": "shop", "streamId": "orders", "dt": "1795428000000"}


def send_orders(first: int, count: int) -> None:
    """Send orders with these numbers, as one InLong pack."""
    records = [f"{n}|buyer {n % 3}|{n}.50".encode() for n in range(first, first + count)]
    pack = encode_pack([RecordGroup(stream, records)], made_ms=1_795_428_000_000)
    with Producer(settings) as producer:
        producer.publish(["shop"])
        producer.send("shop", pack, tag="orders", time="202611231000", attributes={"msgEnType": "2"})


on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
job = Ingest(
    spark,
    master_servers=tube.master_address,
    consumer_group="orders_etl",
    topics=["shop"],
    target="default.tubeclient_orders" if on_databricks else str(folder / "orders"),
    format="csv",
    separator="|",
    schema="id BIGINT, buyer STRING, price DECIMAL(10,2)",
    source_options={"masterWebPort": str(tube.master_web_port), "payload": "inlong", "streams": "orders"},
)
send_orders(0, 100)
print(job.run().rows, "rows")
send_orders(100, 50)
print(job.run().rows, "rows more")

# COMMAND ----------

orders = spark.table(job.settings.target) if on_databricks else spark.read.format("delta").load(job.settings.target)
orders.printSchema()
orders.groupBy("buyer").agg(F.count("*").alias("orders"), F.sum("price").alias("total")).orderBy("buyer").show()
assert orders.count() == orders.select("id").distinct().count() == 150

# COMMAND ----------

# MAGIC %md
# MAGIC ## The end

# COMMAND ----------

import shutil

if on_databricks:
    spark.sql("DROP TABLE default.tubeclient_orders")
tube.stop()
shutil.rmtree(folder)
