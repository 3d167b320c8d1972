import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.paimon.KeyValue;
import org.apache.paimon.KeyValueSerializer;
import org.apache.paimon.Snapshot;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.FileStoreScan;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.PostponeMergePlan;
import org.apache.paimon.table.source.PostponeMergeRead;
import org.apache.paimon.table.source.PostponeMergeReadBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.table.source.snapshot.SnapshotReader;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.tag.Tag;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.IteratorRecordReader;
import org.apache.paimon.utils.Pair;

/** What Java sees: rows of a version, of every version, changes, references, files. */
final class Reads {

    private Reads() {}

    /**
     * Rows of one version. `options` choose it; `columns` project; `where` filters exactly; `rowTracking` adds _ROW_ID
     * and _SEQUENCE_NUMBER; `kinds` adds _KIND to every row; `system` names a system table to read instead;
     * `postponed` merges the rows that wait in the postpone bucket.
     */
    static ObjectNode read(JsonNode call) throws Exception {
        if (call.hasNonNull("branchTag")) {
            return readTagOfBranch(call);
        }
        if (call.path("postponed").asBoolean(false)) {
            return readPostponed(call);
        }
        Table table = Tables.open(call);
        if (call.hasNonNull("system")) {
            table = SystemTableLoader.load(call.get("system").asText(), (FileStoreTable) table);
        }
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        boolean filtered = call.hasNonNull("where");
        if (filtered) {
            builder.withFilter(predicate(call.get("where"), type));
        }
        if (call.path("rowTracking").asBoolean(false)) {
            type = SpecialFields.rowTypeWithRowTracking(type);
            builder.withReadType(type);
        }
        List<String> columns = Values.texts(call.get("columns"));
        // Java filters the rows that it gives out: one without the filtered column matches nothing.
        if (!columns.isEmpty() && !filtered) {
            type = type.project(columns);
            builder.withReadType(type);
        }
        ObjectNode reply = Values.JSON.createObjectNode();
        if (table instanceof FileStoreTable) {
            reply.put("schemaId", ((FileStoreTable) table).schema().id());
        }
        reply.set("schema", describe(type));
        TableRead read = builder.newRead().withIOManager(Tables.spillArea());
        if (filtered) {
            read = read.executeFilter();
        }
        List<Split> splits = builder.newScan().plan().splits();
        ArrayNode rows = reply.putArray("rows");
        drain(read, splits, type, call.path("kinds").asBoolean(false), rows);
        if (!columns.isEmpty() && filtered) {
            rows.forEach(row -> ((ObjectNode) row).retain(columns));
        }
        return reply;
    }

    private static ObjectNode readTagOfBranch(JsonNode call) throws Exception {
        FileStoreTable latest = Tables.open(call);
        Snapshot tagged = latest.tagManager().getOrThrow(call.get("branchTag").asText()).trimToSnapshot();
        FileStoreTable table = latest.copy(Tables.schemas(call).schema(tagged.schemaId()).copy(latest.options()));
        SnapshotReader reader = table.newSnapshotReader().withSnapshot(tagged);
        if (!table.primaryKeys().isEmpty() && table.coreOptions().batchScanSkipLevel0()) {
            reader.withLevelFilter(level -> level > 0);
        }
        List<Split> splits = new ArrayList<>(reader.read().splits());
        ObjectNode reply = Values.JSON.createObjectNode().put("schemaId", table.schema().id());
        reply.set("schema", describe(table.rowType()));
        TableRead read = table.newReadBuilder().newRead().withIOManager(Tables.spillArea());
        drain(read, splits, table.rowType(), false, reply.putArray("rows"));
        return reply;
    }

    /** Rows with those that wait in the postpone bucket (`postpone.merge-on-read`), routed as Spark and Flink do. */
    private static ObjectNode readPostponed(JsonNode call) throws Exception {
        FileStoreTable table = Tables.open(call);
        ObjectNode reply = Values.JSON.createObjectNode();
        ArrayNode rows = reply.putArray("rows");
        PostponeMergeReadBuilder builder =
                PostponeMergeReadBuilder.createSnapshotBound(table, null).orElseThrow(IllegalStateException::new);
        if (call.hasNonNull("where")) {
            builder.withFilter(predicate(call.get("where"), table.rowType()));
        }
        builder.withDefaultBucketNum(call.path("buckets").asInt(2));
        PostponeMergePlan plan = builder.plan();
        Map<Pair<BinaryRow, Integer>, DataSplit> placed = new LinkedHashMap<>();
        for (DataSplit split : plan.realSplits()) {
            if (placed.put(Pair.of(split.partition(), split.bucket()), split) != null) {
                throw new IllegalStateException("a bucket has several splits: raise source.split.target-size");
            }
        }
        KeyValueSerializer serializer = new KeyValueSerializer(plan.keyType(), plan.mergeReadType());
        InternalRowSerializer copier = new InternalRowSerializer(
                KeyValue.schema(plan.keyType(), plan.mergeReadType()));
        Map<Pair<BinaryRow, Integer>, List<InternalRow>> waiting = new LinkedHashMap<>();
        // Java leaves open which of two writers comes first; this package takes the older file first.
        List<DataSplit> late = new ArrayList<>(plan.postponeSplits());
        late.sort((a, b) -> Long.compare(
                a.dataFiles().get(0).creationTimeEpochMillis(), b.dataFiles().get(0).creationTimeEpochMillis()));
        for (DataSplit split : late) {
            PostponeMergeRead read = builder.newRead().withIOManager(Tables.spillArea());
            try (RecordReaderIterator<KeyValue> iterator =
                    new RecordReaderIterator<>(read.createPostponeReader(split))) {
                while (iterator.hasNext()) {
                    KeyValue record = iterator.next();
                    int bucket = plan.bucketRouter().bucket(split.partition(), record.key());
                    waiting.computeIfAbsent(Pair.of(split.partition(), bucket), p -> new ArrayList<>())
                            .add(copier.copy(serializer.toRow(record)));
                }
            }
        }
        Set<Pair<BinaryRow, Integer>> places = new LinkedHashSet<>(placed.keySet());
        places.addAll(waiting.keySet());
        for (Pair<BinaryRow, Integer> place : places) {
            List<KeyValue> routed = new ArrayList<>();
            for (InternalRow row : waiting.getOrDefault(place, Collections.emptyList())) {
                routed.add(new KeyValueSerializer(plan.keyType(), plan.mergeReadType()).fromRow(row));
            }
            PostponeMergeRead read = builder.newRead().withIOManager(Tables.spillArea());
            try (RecordReaderIterator<InternalRow> iterator = new RecordReaderIterator<>(read.createBucketMergeReader(
                    placed.get(place), new IteratorRecordReader<>(routed.iterator())))) {
                while (iterator.hasNext()) {
                    rows.add(Values.rowToJson(iterator.next(), table.rowType()));
                }
            }
        }
        return reply;
    }

    static void drain(TableRead read, List<Split> splits, RowType type, boolean kinds, ArrayNode rows)
            throws Exception {
        for (Split split : splits) {
            try (RecordReaderIterator<InternalRow> iterator = new RecordReaderIterator<>(read.createReader(split))) {
                while (iterator.hasNext()) {
                    InternalRow row = iterator.next();
                    ObjectNode node = Values.rowToJson(row, type);
                    if (kinds) {
                        node.put("_KIND", row.getRowKind().shortString());
                    }
                    rows.add(node);
                }
            }
        }
    }

    private static Predicate predicate(JsonNode node, RowType type) {
        PredicateBuilder builder = new PredicateBuilder(type);
        String op = node.get(0).asText();
        if (op.equals("and") || op.equals("or")) {
            List<Predicate> parts = new ArrayList<>();
            for (int i = 1; i < node.size(); i++) {
                parts.add(predicate(node.get(i), type));
            }
            return op.equals("and") ? PredicateBuilder.and(parts) : PredicateBuilder.or(parts);
        }
        int field = type.getFieldIndex(node.get(1).asText());
        DataType fieldType = type.getTypeAt(field);
        List<Object> literals = new ArrayList<>();
        for (int i = 2; i < node.size(); i++) {
            literals.add(Values.fromJson(node.get(i), fieldType));
        }
        switch (op) {
            case "=":
                return builder.equal(field, literals.get(0));
            case "<>":
                return builder.notEqual(field, literals.get(0));
            case "<":
                return builder.lessThan(field, literals.get(0));
            case "<=":
                return builder.lessOrEqual(field, literals.get(0));
            case ">":
                return builder.greaterThan(field, literals.get(0));
            case ">=":
                return builder.greaterOrEqual(field, literals.get(0));
            case "in":
                return builder.in(field, literals);
            case "not in":
                return builder.notIn(field, literals);
            case "between":
                return builder.between(field, literals.get(0), literals.get(1));
            case "starts with":
                return builder.startsWith(field, literals.get(0));
            case "is null":
                return builder.isNull(field);
            case "is not null":
                return builder.isNotNull(field);
            default:
                throw new IllegalArgumentException("no predicate " + op);
        }
    }

    /** Label -> rows (or the reader's error) of every head, snapshot and tag of main and of each branch. */
    static ObjectNode versions(JsonNode given) {
        ObjectNode call = given.deepCopy();
        ObjectNode reply = Values.JSON.createObjectNode();
        ObjectNode versions = reply.putObject("versions");
        FileStoreTable main = Tables.openPlain(call);
        versionsOf(call, null, main, versions);
        for (String branch : main.branchManager().branches()) {
            ObjectNode onBranch = call.deepCopy();
            onBranch.put("branch", branch);
            versionsOf(onBranch, branch, Tables.openPlain(onBranch), versions);
        }
        return reply;
    }

    private static void versionsOf(ObjectNode call, String branch, FileStoreTable table, ObjectNode versions) {
        String prefix = branch == null ? "" : "branch=" + branch + ",";
        versions.set(branch == null ? "latest" : "branch=" + branch, readOrError(call, null, null));
        for (Snapshot snapshot : snapshots(table)) {
            String id = Long.toString(snapshot.id());
            versions.set(prefix + "snapshot=" + id, readOrError(call, "scan.snapshot-id", id));
        }
        for (String tag : table.tagManager().allTagNames()) {
            // Java resolves scan.tag-name among the tags of main, whatever the branch.
            versions.set(prefix + "tag=" + tag, branch == null
                    ? readOrError(call, "scan.tag-name", tag)
                    : readOrError(call.deepCopy().put("branchTag", tag), null, null));
        }
    }

    private static ObjectNode readOrError(JsonNode call, String key, String value) {
        try {
            ObjectNode version = call.deepCopy();
            if (key != null) {
                version.withObject("/options").put(key, value);
            }
            return read(version);
        } catch (Exception failure) {
            return Values.JSON.createObjectNode().put("error", failure.toString());
        }
    }

    private static List<Snapshot> snapshots(FileStoreTable table) {
        List<Snapshot> snapshots = new ArrayList<>();
        try {
            Iterator<Snapshot> iterator = table.snapshotManager().snapshots();
            iterator.forEachRemaining(snapshots::add);
        } catch (java.io.IOException failure) {
            throw new java.io.UncheckedIOException(failure);
        }
        snapshots.sort((a, b) -> Long.compare(a.id(), b.id()));
        return snapshots;
    }

    /** Snapshot id -> rows with their kinds, as a streaming reader that starts at snapshot `from` sees them. */
    static ObjectNode changes(JsonNode call) throws Exception {
        Map<String, String> options = new LinkedHashMap<>(Values.strings(call.get("options")));
        options.put("scan.mode", "from-snapshot");
        options.put("scan.snapshot-id", call.path("from").asText("1"));
        FileStoreTable table = Tables.openPlain(call).copyWithoutTimeTravel(options);
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        TableRead read = builder.newRead().withIOManager(Tables.spillArea());
        ObjectNode changes = Values.JSON.createObjectNode();
        while (true) {
            Long before = scan.checkpoint();
            TableScan.Plan plan = scan.plan();
            Long after = scan.checkpoint();
            if (plan.splits().isEmpty() && (after == null ? before == null : after.equals(before))) {
                break;
            }
            for (Split split : plan.splits()) {
                String snapshot = Long.toString(((DataSplit) split).snapshotId());
                drain(read, Collections.singletonList(split), type, true, changes.withArray(snapshot));
            }
        }
        ObjectNode reply = Values.JSON.createObjectNode();
        reply.set("schema", describe(type));
        reply.set("changes", changes);
        return reply;
    }

    static ArrayNode describe(RowType type) {
        ArrayNode fields = Values.JSON.createArrayNode();
        for (DataField field : type.getFields()) {
            fields.addArray().add(field.id()).add(field.name()).add(field.type().asSQLString());
        }
        return fields;
    }

    /** Snapshots, tags, branches, schemas and consumers, of main or of `branch`. */
    static ObjectNode listing(JsonNode call) throws Exception {
        FileStoreTable table = Tables.openPlain(call);
        ObjectNode reply = Values.JSON.createObjectNode();
        ArrayNode snapshots = reply.putArray("snapshots");
        for (Snapshot snapshot : snapshots(table)) {
            snapshots.add(Values.JSON.readTree(snapshot.toJson()));
        }
        ObjectNode tags = reply.putObject("tags");
        for (Pair<Tag, String> tag : table.tagManager().tagObjects()) {
            tags.set(tag.getValue(), Values.JSON.readTree(tag.getKey().toJson()));
        }
        ArrayNode branches = reply.putArray("branches");
        table.branchManager().branches().forEach(branches::add);
        ArrayNode schemas = reply.putArray("schemaIds");
        table.schemaManager().listAllIds().stream().sorted().forEach(schemas::add);
        ObjectNode consumers = reply.putObject("consumers");
        table.consumerManager().consumers().forEach(consumers::put);
        return reply;
    }

    /** Live data files, and index files, of the latest snapshot or of `snapshot`. */
    static ObjectNode files(JsonNode call) {
        FileStoreTable table = Tables.openPlain(call);
        FileStoreScan scan = table.store().newScan();
        Snapshot snapshot = call.hasNonNull("snapshot")
                ? table.snapshotManager().snapshot(call.get("snapshot").asLong())
                : table.snapshotManager().latestSnapshot();
        ObjectNode reply = Values.JSON.createObjectNode();
        ArrayNode files = reply.putArray("files");
        ArrayNode indexes = reply.putArray("indexFiles");
        if (snapshot == null) {
            return reply;
        }
        for (ManifestEntry entry : scan.withSnapshot(snapshot).plan().files()) {
            files.add(describe(entry));
        }
        if (snapshot.indexManifest() != null) {
            for (IndexManifestEntry entry : table.store().newIndexFileHandler().readManifest(snapshot.indexManifest())) {
                IndexFileMeta file = entry.indexFile();
                indexes.addObject().put("name", file.fileName()).put("type", file.indexType())
                        .put("bucket", entry.bucket()).put("rows", file.rowCount());
            }
        }
        return reply;
    }

    private static ObjectNode describe(ManifestEntry entry) {
        DataFileMeta file = entry.file();
        ObjectNode node = Values.JSON.createObjectNode();
        node.put("name", file.fileName()).put("bucket", entry.bucket()).put("totalBuckets", entry.totalBuckets());
        node.put("level", file.level()).put("rows", file.rowCount()).put("bytes", file.fileSize());
        node.put("minSequence", file.minSequenceNumber()).put("maxSequence", file.maxSequenceNumber());
        node.put("schemaId", file.schemaId()).put("deletes", file.deleteRowCount().orElse(null));
        node.put("firstRowId", file.firstRowId());
        return node;
    }
}
