"""The options of how a cluster is reached, and as whom."""

from __future__ import annotations

from typing import Final

from spark_source.options import parsers as to
from spark_source.options.row import REQUIRED, OptionRow

__all__ = ["ACCESS", "CONNECTING"]

CONNECTING: Final[tuple[OptionRow, ...]] = (
    OptionRow(
        "masterServers",
        "master_servers",
        to.servers,
        REQUIRED,
        "required",
        "The cluster's masters, active and standby: `host:port` separated by commas; without a port 8715, or "
        "8716 over TLS.",
        writes=True,
    ),
    OptionRow(
        "masterWebPort",
        "master_web_port",
        to.integer(1, 65535),
        8080,
        "`8080`",
        "The masters' HTTP port; the brokers' ones are found there. Where they cannot be reached, offsets are "
        "asked for over TubeMQ's own protocol. Writes do without.",
        writes=True,
    ),
    OptionRow(
        "rpcTimeout",
        "rpc_timeout_ms",
        to.duration_ms(100),
        8_000,
        "`8s`",
        "How long one call to a broker may take, or to all masters in turn.",
        writes=True,
    ),
    OptionRow(
        "retryLimit",
        "retry_limit_ms",
        to.duration_ms(1_000),
        60_000,
        "`60s`",
        "How long reading goes on trying without any progress before it fails; for writes, how long one message is "
        "tried.",
        writes=True,
    ),
)

ACCESS: Final[tuple[OptionRow, ...]] = (
    OptionRow(
        "authUser",
        "auth_user",
        to.user,
        None,
        "none",
        "The user, where masters and brokers ask for one. One of the three options that follow gives the password.",
        writes=True,
    ),
    OptionRow(
        "authPassword",
        "auth_password",
        to.password,
        None,
        "none",
        "The user's password. Brokers want the signature of each task, so this text is sent to every task; the two "
        "options that follow send only where it stands.",
        secret=True,
        writes=True,
    ),
    OptionRow(
        "authPasswordFile",
        "auth_password_file",
        to.text,
        None,
        "none",
        "A file that holds the password, at this path on the driver's machine and on every executor's. It is read "
        "whenever a request is signed.",
        writes=True,
    ),
    OptionRow(
        "authPasswordEnv",
        "auth_password_env",
        to.text,
        None,
        "none",
        "An environment variable that holds the password, of the driver and of the executors "
        "(`spark.executorEnv.NAME`).",
        writes=True,
    ),
    OptionRow(
        "tls.enabled",
        "tls_enabled",
        to.boolean,
        None,
        "`true` where another `tls.` option is given, else `false`",
        "Whether connections to masters and brokers are encrypted. TubeMQ has ports of its own for it: a master "
        "without a port is then at 8716. The web ports know no TLS.",
        writes=True,
    ),
    OptionRow(
        "tls.caFile",
        "tls_ca_file",
        to.text,
        None,
        "whom the machine trusts",
        "Certificates of those who sign the servers' ones. This and all files below: PEM, at the same path on the "
        "driver's machine and on every executor's.",
        writes=True,
    ),
    OptionRow(
        "tls.certificateFile",
        "tls_certificate_file",
        to.text,
        None,
        "none",
        "The client's own certificate, with the chain to its signer, where servers ask for one (two-way TLS).",
        writes=True,
    ),
    OptionRow(
        "tls.keyFile",
        "tls_key_file",
        to.text,
        None,
        "`tls.certificateFile`",
        "The private key of that certificate.",
        writes=True,
    ),
    OptionRow(
        "tls.keyPassword",
        "tls_key_password",
        to.password,
        None,
        "none",
        "What the key is encrypted with, if it is. Like `authPassword`, this text is sent to every task.",
        secret=True,
        writes=True,
    ),
    OptionRow(
        "tls.keyPasswordFile",
        "tls_key_password_file",
        to.text,
        None,
        "none",
        "A file that holds the key's password.",
        writes=True,
    ),
    OptionRow(
        "tls.keyPasswordEnv",
        "tls_key_password_env",
        to.text,
        None,
        "none",
        "An environment variable that holds the key's password.",
        writes=True,
    ),
    OptionRow(
        "tls.checkHostname",
        "tls_check_hostname",
        to.boolean,
        True,
        "`true`",
        "Whether a server's certificate has to be for the host it was reached at. Brokers are reached at the address "
        "that the master lists: either their certificates name it, or this is to be false.",
        writes=True,
    ),
)
