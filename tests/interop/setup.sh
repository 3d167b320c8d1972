#!/usr/bin/env bash
# Get the peers that the interoperability tests talk to into .interop/: a Java Paimon bundle, and pypaimon in an
# environment of its own. Versions come from versions.env.
#
#   tests/interop/setup.sh [connector] [dbt] [catalogs] [hdfs] [azure] [s3] [gcs]
#
# `connector` also gets Java Paimon's Spark connector with the PySpark it needs, `dbt` dbt with its adapter for Spark,
# `catalogs` what the tests of metastores need, and the others the servers of tests/stores: HDFS, and servers of Azure, S3
# and Google Cloud Storage. Safe to run again at any time; quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/interop
home=.interop
# shellcheck source=versions.env
. "$here/versions.env"

say() { printf '%s\n' "$*" >&2; }
die() { say "interop: $*"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo -n "$@"
  else return 1; fi
}

install_package() {
  if command -v apt-get >/dev/null; then
    as_root apt-get update -qq >/dev/null && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null
  elif command -v dnf >/dev/null; then as_root dnf install -y -q "$1" >/dev/null
  elif command -v brew >/dev/null; then brew install --quiet "$1" >/dev/null
  else return 1; fi
}

need() {
  local command=$1 package=$2
  command -v "$command" >/dev/null && return
  say "interop: installing $package (for $command)"
  install_package "$package" >&2 && command -v "$command" >/dev/null ||
    die "$command is missing. Install it with your package manager (for example: sudo apt-get install $package)"
}

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

local_repo=$(mktemp -d)
trap 'rm -rf "$local_repo"' EXIT

# get_jar GROUP ARTIFACT VERSION [SHA256 [CLASSIFIER]]
# Only the jar is wanted. Its POM names a parent that a registry may lack, and without which Maven resolves nothing:
# a local repository of ours holds a bare POM in its place, and only as long as this takes.
get_jar() {
  local group=$1 artifact=$2 version=$3 sum=${4:-} file="$2-$3${5:+-$5}.jar"
  local jar="$home/jars/$file"
  if [ -f "$jar" ] && { [ -z "$sum" ] || [ "$(sha256 "$jar")" = "$sum" ]; }; then return; fi
  need mvn maven
  say "interop: fetching $artifact $version"
  local pom
  pom="$local_repo/${group//.//}/$artifact/$version/$artifact-$version.pom"
  mkdir -p "$(dirname "$pom")" "$home/jars"
  printf '<project><modelVersion>4.0.0</modelVersion><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></project>\n' \
    "$group" "$artifact" "$version" >"$pom"
  # Maven prints control codes even when quiet: its words are wanted only when it fails.
  (cd "$local_repo" && mvn -q -B "-Dmaven.repo.local=$local_repo" \
    "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN:copy" \
    "-Dartifact=$group:$artifact:$version${5:+:jar:$5}" "-DoutputDirectory=$local_repo/out") </dev/null >"$local_repo/log" 2>&1 ||
    { tail -n 20 "$local_repo/log" >&2; die "Maven did not deliver $group:$artifact:$version"; }
  [ -z "$sum" ] || [ "$(sha256 "$local_repo/out/$file")" = "$sum" ] ||
    die "$file is not the file that versions.env pins"
  mv "$local_repo/out/$file" "$jar"
}

# get_venv NAME REQUIREMENT...
get_venv() {
  local venv="$home/$1" python=${PYTHON:-.venv/bin/python}
  shift
  [ -x "$python" ] || python=python3
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  say "interop: installing $* into $venv"
  PIP_ROOT_USER_ACTION=ignore "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input install "$@"
}

# get_dbt: an environment of its own, which finds PySpark and the packages of the project in .venv.
get_dbt() {
  local found=$home/venv-dbt/lib/python*/site-packages
  # shellcheck disable=SC2086
  rm -f $found/project.pth
  get_venv venv-dbt "dbt-core==$DBT_CORE_VERSION" "dbt-spark==$DBT_SPARK_VERSION"
  # shellcheck disable=SC2086
  printf 'import site; site.addsitedir("%s")\n' "$(.venv/bin/python -c 'import site; print(site.getsitepackages()[0])')" \
    >"$(echo $found)/project.pth"
}

# get_go_program NAME PACKAGE VERSION: build a server from its sources (two to three minutes each).
get_go_program() {
  need go golang
  say "interop: building $1 $3"
  local cache
  cache=$(mktemp -d)
  GOBIN="$PWD/$home/bin" GOFLAGS=-mod=mod GOCACHE="$cache" go install "$2@$3" >"$cache/log" 2>&1 ||
    { tail -n 20 "$cache/log" >&2; die "$1 was not built"; }
  rm -rf "$cache"
}

get_azurite() {
  need npm npm
  say "interop: installing azurite $AZURITE_VERSION"
  mkdir -p "$home/azurite"
  npm install --prefix "$home/azurite" --no-audit --no-fund --silent "azurite@$AZURITE_VERSION" >&2
}

get_hdfs() {
  get_jar org.apache.hadoop hadoop-client-minicluster "$HADOOP_VERSION" "$HADOOP_MINICLUSTER_SHA256"
  get_jar org.apache.hadoop hadoop-client-api "$HADOOP_VERSION" "$HADOOP_CLIENT_API_SHA256"
  get_jar org.apache.hadoop hadoop-client-runtime "$HADOOP_VERSION" "$HADOOP_CLIENT_RUNTIME_SHA256"
  get_jar javax.xml.bind jaxb-api "$JAXB_API_VERSION" "$JAXB_API_SHA256"  # WebHDFS needs it
}

get_catalogs() {
  command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1 || install_package postgresql ||
    die "PostgreSQL is missing. Install it with your package manager (for example: sudo apt-get install postgresql)"
  get_jar org.xerial sqlite-jdbc "$SQLITE_JDBC_VERSION" "$SQLITE_JDBC_SHA256"
  get_jar org.postgresql postgresql "$POSTGRESQL_JDBC_VERSION" "$POSTGRESQL_JDBC_SHA256"
  # Java Paimon's own REST catalog, which is among its tests, and what that server runs on.
  get_jar org.apache.paimon paimon-core "$JAVA_PAIMON_VERSION" "$PAIMON_CORE_TESTS_SHA256" tests
  get_jar com.squareup.okhttp3 mockwebserver "$OKHTTP_VERSION" "$MOCKWEBSERVER_SHA256"
  get_jar com.squareup.okhttp3 okhttp "$OKHTTP_VERSION" "$OKHTTP_SHA256"
  get_jar com.squareup.okio okio-jvm "$OKIO_VERSION" "$OKIO_SHA256"
  get_jar org.jetbrains.kotlin kotlin-stdlib "$KOTLIN_VERSION" "$KOTLIN_SHA256"
  get_jar junit junit "$JUNIT_VERSION" "$JUNIT_SHA256"
  get_jar org.hamcrest hamcrest-core "$HAMCREST_VERSION" "$HAMCREST_SHA256"
}

# once NAME COMMAND...: run it unless it has been run with these versions
once() {
  local stamp
  stamp="$home/.$1-$(cat "$here/versions.env" "$here/setup.sh" | cksum | cut -d' ' -f1)"
  shift
  [ -f "$stamp" ] && return
  "$@"
  touch "$stamp"
}

mkdir -p "$home"
# One at a time: CI begins with this in the background, and each target of make calls it again.
exec 9>"$home/.lock"
! command -v flock >/dev/null || flock 9
need javac openjdk-17-jdk-headless
once java get_jar "$JAVA_PAIMON_GROUP" "$JAVA_PAIMON_ARTIFACT" "$JAVA_PAIMON_VERSION" "$JAVA_PAIMON_SHA256"
once pypaimon get_venv venv-pypaimon "pypaimon==$PYPAIMON_VERSION"
for wanted in "$@"; do
  case $wanted in
    connector)
      once connector-jar get_jar "$JAVA_PAIMON_GROUP" "$CONNECTOR_ARTIFACT" "$CONNECTOR_VERSION" "$CONNECTOR_SHA256"
      once connector-venv get_venv venv-connector "pyspark==$CONNECTOR_PYSPARK_VERSION" ;;
    dbt) once dbt get_dbt ;;
    hdfs) once hdfs get_hdfs ;;
    azure) once azurite get_azurite ;;
    s3) once versitygw get_go_program versitygw github.com/versity/versitygw/cmd/versitygw "$VERSITYGW_VERSION" ;;
    gcs)
      once fake-gcs-server get_go_program fake-gcs-server github.com/fsouza/fake-gcs-server "$FAKE_GCS_SERVER_VERSION" ;;
    catalogs) once catalogs get_catalogs ;;
    *) die "no peer is called $wanted: connector, dbt, catalogs, hdfs, azure, s3, gcs" ;;
  esac
done
