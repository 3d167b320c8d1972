import java.io.File;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.consumer.Consumer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.operation.CleanOrphanFilesResult;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.tag.TagBatchCreation;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;

/** Opening tables, and the calls that change their metadata only. */
final class Tables {

    static final FileIO IO = LocalFileIO.create();

    private Tables() {}

    static Path path(JsonNode call) {
        return new Path(new File(call.get("path").asText()).getAbsolutePath());
    }

    /** The table, of `branch` when one is named, with the call's `options` applied as a user's dynamic options. */
    static FileStoreTable open(JsonNode call) {
        FileStoreTable table = openPlain(call);
        JsonNode options = call.path("options");
        return options.size() == 0 ? table : table.copy(Values.strings(options));
    }

    static FileStoreTable openPlain(JsonNode call) {
        if (Catalogs.isNamed(call)) {
            try {
                FileStoreTable table = (FileStoreTable) Catalogs.of(call).getTable(Catalogs.identifier(call));
                return call.hasNonNull("branch") ? table.switchToBranch(call.get("branch").asText()) : table;
            } catch (Catalog.TableNotExistException e) {
                throw new IllegalArgumentException(e);
            }
        }
        Options options = new Options();
        options.set("path", path(call).toString());
        if (call.hasNonNull("branch")) {
            options.set("branch", call.get("branch").asText());
        }
        return FileStoreTableFactory.create(IO, options);
    }

    static SchemaManager schemas(JsonNode call) {
        return new SchemaManager(IO, path(call), call.path("branch").asText("main"));
    }

    static IOManager spillArea() throws Exception {
        return IOManager.create(Files.createTempDirectory("paimon-driver").toString());
    }

    static ObjectNode change(JsonNode call) throws Exception {
        ObjectNode reply = Values.JSON.createObjectNode();
        String name = call.path("name").asText(null);
        switch (call.get("op").asText()) {
            case "createTable":
                createTable(call);
                break;
            case "alter":
                alter(call);
                break;
            case "createTag":
                createTag(call);
                break;
            case "createBatchTag":
                new TagBatchCreation(open(call)).createTag();
                break;
            case "deleteTag":
                open(call).deleteTag(name);
                break;
            case "renameTag":
                open(call).renameTag(name, call.get("to").asText());
                break;
            case "createBranch":
                if (call.hasNonNull("tag")) {
                    open(call).createBranch(name, call.get("tag").asText());
                } else {
                    open(call).createBranch(name);
                }
                break;
            case "deleteBranch":
                open(call).deleteBranch(name);
                break;
            case "renameBranch":
                open(call).renameBranch(name, call.get("to").asText());
                break;
            case "fastForward":
                open(call).fastForward(name);
                break;
            case "mergeBranch":
                open(call).mergeBranch(name, call.path("to").asText("main"));
                break;
            case "rollback":
                if (call.hasNonNull("tag")) {
                    open(call).rollbackTo(call.get("tag").asText());
                } else {
                    open(call).rollbackTo(call.get("snapshot").asLong());
                }
                break;
            case "expireSnapshots":
                reply.put("expired", expireSnapshots(call));
                break;
            case "expirePartitions":
                expirePartitions(call, reply.putArray("partitions"));
                break;
            case "removeOrphans":
                CleanOrphanFilesResult removed = new LocalOrphanFilesClean(
                        open(call),
                        call.path("olderThan").asLong(Long.MAX_VALUE),
                        call.path("dryRun").asBoolean(false)).clean();
                reply.put("removed", removed.getDeletedFileCount())
                        .put("bytes", removed.getDeletedFileTotalLenInBytes());
                break;
            case "truncate":
                try (TableCommitImpl commit = open(call).newCommit("truncate")) {
                    commit.truncateTable();
                }
                break;
            case "compactManifests":
                try (TableCommitImpl commit = open(call).newCommit("compact-manifests")) {
                    commit.compactManifests();
                }
                break;
            case "analyze":
                analyze(call);
                break;
            case "consumer":
                open(call).consumerManager().resetConsumer(name, new Consumer(call.get("next").asLong()));
                break;
            case "sleep":
                Thread.sleep(call.get("ms").asLong());
                break;
            default:
                throw new IllegalArgumentException("no op " + call.get("op"));
        }
        return reply.put("ok", true);
    }

    /** The partitions in the order and the text that the procedures of Spark and Flink show. */
    private static void expirePartitions(JsonNode call, ArrayNode partitions) {
        FileStoreTable table = open(call);
        for (Map<String, String> expired :
                table.store().newPartitionExpire("expire", table).expire(Long.MAX_VALUE)) {
            String text = expired.toString();
            partitions.add(text.substring(1, text.length() - 1));
        }
    }

    private static void createTable(JsonNode call) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode field : call.get("fields")) {
            String comment = field.size() > 2 ? field.get(2).asText(null) : null;
            String defaultValue = field.size() > 3 ? field.get(3).asText(null) : null;
            schema.column(field.get(0).asText(), DataTypeJsonParser.parseDataType(field.get(1)), comment, defaultValue);
        }
        schema.partitionKeys(Values.texts(call.get("partition")));
        schema.primaryKey(Values.texts(call.get("pk")));
        schema.options(Values.strings(call.get("tableOptions")));
        if (call.hasNonNull("comment")) {
            schema.comment(call.get("comment").asText());
        }
        if (Catalogs.isNamed(call)) {
            Catalogs.of(call).createTable(Catalogs.identifier(call), schema.build(), false);
        } else {
            schemas(call).createTable(schema.build());
        }
    }

    private static void alter(JsonNode call) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : call.get("changes")) {
            changes.add(schemaChange(change));
        }
        if (Catalogs.isNamed(call)) {
            Catalogs.of(call).alterTable(Catalogs.identifier(call), changes, false);
        } else {
            schemas(call).commitChanges(changes);
        }
    }

    /** A change names its column as text or, for a nested one, as the list of names on the way to it. */
    private static SchemaChange schemaChange(JsonNode change) {
        JsonNode column = change.path("name");
        String[] names = column.isArray() ? Values.texts(column).toArray(new String[0]) : new String[] {column.asText()};
        String name = names[0];
        switch (change.get("do").asText()) {
            case "add":
                return SchemaChange.addColumn(names, type(change), change.path("comment").asText(null), move(change, name));
            case "drop":
                return SchemaChange.dropColumn(names);
            case "rename":
                return SchemaChange.renameColumn(names, change.get("to").asText());
            case "retype":
                return SchemaChange.updateColumnType(names, type(change), change.path("keepNullability").asBoolean(false));
            case "nullable":
                return SchemaChange.updateColumnNullability(names, change.get("value").asBoolean());
            case "comment":
                return SchemaChange.updateColumnComment(names, change.get("value").asText());
            case "default":
                return SchemaChange.updateColumnDefaultValue(names, change.get("value").asText());
            case "move":
                return SchemaChange.updateColumnPosition(move(change, name));
            case "set":
                return SchemaChange.setOption(name, change.get("value").asText());
            case "unset":
                return SchemaChange.removeOption(name);
            case "tableComment":
                return SchemaChange.updateComment(change.get("value").asText());
            default:
                throw new IllegalArgumentException("no schema change " + change);
        }
    }

    private static SchemaChange.Move move(JsonNode change, String name) {
        if (change.hasNonNull("after")) {
            return SchemaChange.Move.after(name, change.get("after").asText());
        }
        if (change.hasNonNull("before")) {
            return SchemaChange.Move.before(name, change.get("before").asText());
        }
        return change.path("first").asBoolean(false) ? SchemaChange.Move.first(name) : null;
    }

    private static DataType type(JsonNode change) {
        return DataTypeJsonParser.parseDataType(change.get("type"));
    }

    private static void createTag(JsonNode call) {
        FileStoreTable table = open(call);
        String name = call.get("name").asText();
        Duration retained = call.hasNonNull("retained") ? Duration.parse(call.get("retained").asText()) : null;
        if (call.hasNonNull("snapshot")) {
            table.createTag(name, call.get("snapshot").asLong(), retained);
        } else {
            table.createTag(name, retained);
        }
    }

    private static int expireSnapshots(JsonNode call) {
        int retain = call.path("retain").asInt(1);
        FileStoreTable table = open(call);
        ExpireConfig config = ExpireConfig.builder()
                .snapshotRetainMax(retain)
                .snapshotRetainMin(call.path("retainMin").asInt(retain))
                .snapshotTimeRetain(Duration.ofMillis(call.path("timeRetainMs").asLong(0)))
                .build();
        return table.newExpireSnapshots().config(config).expire();
    }

    private static void analyze(JsonNode call) throws Exception {
        FileStoreTable table = open(call);
        try (TableCommitImpl commit = table.newCommit("analyze")) {
            commit.updateStatistics(new Statistics(
                    table.snapshotManager().latestSnapshotId(), table.schema().id(),
                    call.path("records").asLong(), call.path("bytes").asLong(0), new HashMap<>(Collections.emptyMap())));
        }
    }
}
