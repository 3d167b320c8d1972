"""Locations of a store as Hadoop's file systems know them, for readers in the JVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from paimon_spark.spark_catalog.jvm.gateway import Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL: Final = "file"
_OF_HADOOP: Final = (_LOCAL, "hdfs", "viewfs", "webhdfs")
_S3: Final = ("s3", "s3a", "s3n")
_S3A_CLASS: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_S3A: Final = "fs.s3a."
_PREFIXES: Final = (_S3A, "s3a.", "s3.")
_OURS: Final = ("conditional-writes",)
"""Options of S3 that only this package has."""
_S3A_KEYS: Final = {
    "access-key": "access.key",
    "secret-key": "secret.key",
    "session-token": "session.token",
    "security-token": "session.token",
    "path-style-access": "path.style.access",
    "region": "endpoint.region",
}
"""Names that Paimon and Hadoop have differently."""
_FSSPEC: Final = "fs."


def hadoop_url(url: str) -> str | None:
    """The URL that Hadoop reads; None for stores of other kinds."""
    scheme, sign, rest = url.partition("://")
    if not sign:
        return None
    if scheme in _OF_HADOOP:
        return url
    return f"s3a://{rest}" if scheme in _S3 else None


def hadoop_conf(gateway: Gateway, spark: SparkSession, options: Mapping[str, str], url: str) -> Any | None:
    """Hadoop's configuration of the session with a store's options; None if the session cannot reach the file `url`.

    Sources: Hadoop `fs/s3a`; Paimon's `S3FileIO`.
    """
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    scheme = url.partition("://")[0]
    if scheme == _LOCAL:
        return conf
    settings: Mapping[str, str] | None = {}
    if scheme == "s3a":
        settings = s3a_settings(options) if _has_s3a(gateway) else None
    elif any(k.startswith(_FSSPEC) for k in options):
        return None  # they say how Python reaches the store, and Hadoop would not know
    if settings is None:
        return None
    for key, value in settings.items():
        conf.set(key, value)
    return conf if _reaches(gateway, conf, url) else None


def s3a_settings(options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a store for S3A; None when there are options of fsspec, which S3A does not know."""
    out = {}
    for key, value in options.items():
        prefix = next((p for p in _PREFIXES if key.lower().startswith(p)), None)
        if prefix is not None:
            name = key[len(prefix) :]
            if name not in _OURS:
                out[_S3A + _S3A_KEYS.get(name, name)] = value
        elif key.startswith(_FSSPEC):
            return None
    return out


def _reaches(gateway: Gateway, conf: Any, url: str) -> bool:
    """Whether Hadoop finds a file that exists: classes, addresses and rights are those of the session."""
    try:
        path = gateway.cls("org.apache.hadoop.fs.Path")(url)
        return bool(path.getFileSystem(conf).exists(path))
    except Py4JJavaError:
        return False


def _has_s3a(gateway: Gateway) -> bool:
    def look() -> bool:
        try:
            gateway.static("org.apache.spark.util.Utils", "classForName")(_S3A_CLASS, True, True)
        except Py4JJavaError:
            return False
        return True

    return bool(gateway.once("s3a", look))
