import java.util.ArrayList;
import java.util.List;

import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.ManifestCommittable;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.types.RowType;

/** One commit of rows: append, upsert or overwrite, by the writer of the table's bucket mode. */
final class Writes {

    private Writes() {}

    /**
     * Rows are lists of values, or {"$k": kind, "v": values, "bucket": n}. `identifier`, `user`, `watermark` go to the
     * commit; `overwrite` gives the static partition ({} = dynamic or whole); `columns` with `firstRowId` writes some
     * columns of existing rows of a data evolution table; `repeat` prepares without compaction waits when false.
     */
    static ObjectNode write(JsonNode call) throws Exception {
        FileStoreTable table = Tables.open(call);
        String user = call.path("user").asText("java");
        long identifier = call.path("identifier").asLong(Long.MAX_VALUE);
        boolean overwrite = call.has("overwrite");
        List<CommitMessage> messages;
        try (IOManager spill = Tables.spillArea();
                TableWriteImpl<?> write = table.newWrite(user).withIOManager(spill)) {
            write.withIgnorePreviousFiles(overwrite);
            RowType type = table.rowType();
            if (call.hasNonNull("columns")) {
                type = type.project(Values.texts(call.get("columns")));
                write.withWriteType(type);
            }
            writeRows(table, write, rows(call, type), call.get("rows"), user, spill);
            messages = write.prepareCommit(call.path("waitCompaction").asBoolean(true), identifier);
        }
        if (call.hasNonNull("firstRowId")) {
            messages = withFirstRowId(messages, call.get("firstRowId").asLong());
        }
        ManifestCommittable committable = new ManifestCommittable(
                identifier, call.hasNonNull("watermark") ? call.get("watermark").asLong() : null, messages);
        try (TableCommitImpl commit = table.newCommit(user)) {
            if (overwrite) {
                commit.withOverwrite(Values.strings(call.get("overwrite")));
            }
            commit.ignoreEmptyCommit(call.path("ignoreEmpty").asBoolean(true)).commit(committable);
        }
        Long snapshot = table.snapshotManager().latestSnapshotIdFromFileSystem();
        return Values.JSON.createObjectNode().put("ok", true).put("snapshot", snapshot);
    }

    private static List<GenericRow> rows(JsonNode call, RowType type) {
        List<GenericRow> rows = new ArrayList<>();
        for (JsonNode node : call.get("rows")) {
            GenericRow row = Values.rowFromJson(node.isObject() ? node.get("v") : node, type);
            if (node.isObject() && node.has("$k")) {
                row.setRowKind(Values.kind(node.get("$k").asText()));
            }
            rows.add(row);
        }
        return rows;
    }

    private static void writeRows(
            FileStoreTable table, TableWriteImpl<?> write, List<GenericRow> rows, JsonNode given, String user,
            IOManager spill) throws Exception {
        switch (table.bucketMode()) {
            case HASH_DYNAMIC:
                HashBucketAssigner assigner = new HashBucketAssigner(
                        table.snapshotManager(), user, table.store().newIndexFileHandler(), 1, 1, 0,
                        table.coreOptions().dynamicBucketTargetRowNum(), table.coreOptions().dynamicBucketMaxBuckets());
                RowKeyExtractor keys = table.createRowKeyExtractor();
                for (GenericRow row : rows) {
                    keys.setRecord(row);
                    write.write(row, assigner.assign(keys.partition(), keys.trimmedPrimaryKey().hashCode()));
                }
                break;
            case KEY_DYNAMIC:
                writeAcrossPartitions(table, write, rows, spill);
                break;
            default:
                for (int i = 0; i < rows.size(); i++) {
                    if (given.get(i).isObject() && given.get(i).has("bucket")) {
                        write.write(rows.get(i), given.get(i).get("bucket").asInt());
                    } else {
                        write.write(rows.get(i));
                    }
                }
        }
    }

    private static void writeAcrossPartitions(
            FileStoreTable table, TableWriteImpl<?> write, List<GenericRow> rows, IOManager spill) throws Exception {
        InternalRowSerializer copier = new InternalRowSerializer(table.rowType());
        try (GlobalIndexAssigner assigner = new GlobalIndexAssigner(table)) {
            assigner.open(1 << 20, null, spill, 1, 0, (row, bucket) -> writeUnchecked(write, copier.copy(row), bucket));
            try (RecordReader<InternalRow> known = new IndexBootstrap(table).bootstrap(1, 0)) {
                RecordReader.RecordIterator<InternalRow> batch;
                while ((batch = nextBatch(known)) != null) {
                    InternalRow key;
                    while ((key = batch.next()) != null) {
                        assigner.bootstrapKey(key);
                    }
                    batch.releaseBatch();
                }
            }
            assigner.endBoostrap(false);
            for (GenericRow row : rows) {
                assigner.processInput(row);
            }
        }
    }

    /**
     * The next batch of existing keys, asked for after a moment: a ParallelExecution whose last batch is taken before
     * its thread has ended waits two seconds for another one.
     */
    private static RecordReader.RecordIterator<InternalRow> nextBatch(RecordReader<InternalRow> reader)
            throws Exception {
        Thread.sleep(30);
        return reader.readBatch();
    }

    private static void writeUnchecked(TableWriteImpl<?> write, InternalRow row, int bucket) {
        try {
            write.write(row, bucket);
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static List<CommitMessage> withFirstRowId(List<CommitMessage> messages, long firstRowId) {
        List<CommitMessage> result = new ArrayList<>();
        for (CommitMessage one : messages) {
            CommitMessageImpl message = (CommitMessageImpl) one;
            List<DataFileMeta> files = new ArrayList<>();
            for (DataFileMeta file : message.newFilesIncrement().newFiles()) {
                files.add(file.assignFirstRowId(firstRowId));
            }
            DataIncrement increment = new DataIncrement(files, new ArrayList<>(), new ArrayList<>());
            result.add(new CommitMessageImpl(
                    message.partition(), message.bucket(), message.totalBuckets(), increment,
                    CompactIncrement.emptyIncrement()));
        }
        return result;
    }
}
