import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactCoordinator;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactDeletionVectorRewriter;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactTask;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.IndexFileHandler;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.operation.DataEvolutionSplitRead;
import org.apache.paimon.postpone.BucketFiles;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.PostponeUtils;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.InnerTableRead;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.RecordWriter;

/** Commits that rewrite what is there: compaction of each kind of table, deletes by deletion vectors. */
final class Rewrites {

    private Rewrites() {}

    /** Compact everything, `full` unless told not to (bucketed tables). */
    static ObjectNode compact(JsonNode call) throws Exception {
        FileStoreTable table = Tables.open(call);
        String user = call.path("user").asText("java-compact");
        List<CommitMessage> messages;
        FileStoreTable committing = table;
        if (table.coreOptions().dataEvolutionEnabled()) {
            messages = compactDataEvolution(table, user);
        } else if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            messages = compactUnaware(table, user);
        } else if (table.bucketMode() == BucketMode.POSTPONE_MODE) {
            messages = compactPostpone(table, user, call.path("buckets").asInt(2));
            committing = PostponeUtils.tableForCommit(table);
        } else {
            messages = compactBuckets(table, user, call.path("full").asBoolean(true));
        }
        try (TableCommitImpl commit = committing.newCommit(user)) {
            commit.ignoreEmptyCommit(true).commit(Long.MAX_VALUE, messages);
        }
        return Values.JSON.createObjectNode().put("ok", true).put("messages", messages.size());
    }

    private static List<CommitMessage> compactBuckets(FileStoreTable table, String user, boolean full)
            throws Exception {
        Map<BinaryRow, Set<Integer>> buckets = new LinkedHashMap<>();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            buckets.computeIfAbsent(entry.partition().copy(), p -> new HashSet<>()).add(entry.bucket());
        }
        try (IOManager spill = Tables.spillArea();
                TableWriteImpl<?> write = table.newWrite(user).withIOManager(spill)) {
            for (Map.Entry<BinaryRow, Set<Integer>> entry : buckets.entrySet()) {
                for (int bucket : entry.getValue()) {
                    write.compact(entry.getKey(), bucket, full);
                }
            }
            return write.prepareCommit(true, Long.MAX_VALUE);
        }
    }

    private static List<CommitMessage> compactUnaware(FileStoreTable table, String user) throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite(user);
        try (IOManager spill = Tables.spillArea()) {
            write.withIOManager(spill);
            if (table.coreOptions().rowTrackingEnabled()) {
                // The rows keep their ids only when the rewriting writer stores them.
                write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
            }
            for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                messages.add(task.doCompact(table, write));
            }
        } finally {
            write.close();
        }
        return messages;
    }

    private static List<CommitMessage> compactDataEvolution(FileStoreTable table, String user) throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        Snapshot snapshot = table.snapshotManager().latestSnapshot();
        DataEvolutionCompactCoordinator coordinator =
                new DataEvolutionCompactCoordinator(table, true, false, snapshot);
        for (DataEvolutionCompactTask task : coordinator.plan()) {
            messages.add(task.doCompact(table, user));
        }
        messages.addAll(
                new DataEvolutionCompactDeletionVectorRewriter(table, snapshot).rewriteDeletionVectors(messages));
        return messages;
    }

    /**
     * Set columns of the rows whose `column` has one of `values`, as Spark's UPDATE does: files are rewritten with the
     * ids of their rows, or with data evolution get a file beside them with the columns that are `set`.
     */
    static ObjectNode updateRows(JsonNode call) throws Exception {
        FileStoreTable table = Tables.open(call);
        boolean evolves = table.coreOptions().dataEvolutionEnabled();
        List<CommitMessage> messages = new ArrayList<>();
        for (Split one : table.newSnapshotReader().read().splits()) {
            DataSplit split = (DataSplit) one;
            List<List<DataFileMeta>> groups = new ArrayList<>();
            if (evolves) {
                groups.addAll(DataEvolutionSplitRead.mergeRangesAndSort(split.dataFiles()));
            } else {
                split.dataFiles().forEach(file -> groups.add(Collections.singletonList(file)));
            }
            for (List<DataFileMeta> group : groups) {
                List<DataFileMeta> made = updated(table, split, group, call, evolves);
                if (!made.isEmpty()) {
                    List<DataFileMeta> gone = evolves ? new ArrayList<>() : new ArrayList<>(group);
                    messages.add(new CommitMessageImpl(
                            split.partition().copy(), 0, split.totalBuckets(),
                            new DataIncrement(made, gone, new ArrayList<>()), CompactIncrement.emptyIncrement()));
                }
            }
        }
        try (TableCommitImpl commit = table.newCommit(call.path("user").asText("java-update"))) {
            commit.commit(Long.MAX_VALUE, messages);
        }
        return Values.JSON.createObjectNode().put("ok", true).put("files", messages.size());
    }

    private static List<DataFileMeta> updated(
            FileStoreTable table, DataSplit split, List<DataFileMeta> group, JsonNode call, boolean evolves)
            throws Exception {
        JsonNode set = call.get("set");
        RowType read = SpecialFields.rowTypeWithRowTracking(table.rowType());
        List<String> names = new ArrayList<>();
        set.fieldNames().forEachRemaining(names::add);
        RowType written = evolves
                ? table.rowType().project(names)
                : SpecialFields.rowTypeWithRowTracking(table.rowType(), false, true);
        int chosen = read.getFieldIndex(call.get("column").asText());
        Set<JsonNode> wanted = new HashSet<>();
        call.get("values").forEach(value ->
                wanted.add(Values.toJson(Values.fromJson(value, read.getTypeAt(chosen)), read.getTypeAt(chosen))));
        DataSplit part = DataSplit.builder().withSnapshot(split.snapshotId()).withPartition(split.partition())
                .withBucket(split.bucket()).withBucketPath(split.bucketPath()).withTotalBuckets(split.totalBuckets())
                .withDataFiles(new ArrayList<>(group)).rawConvertible(!evolves).build();
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite("java-update");
        write.withWriteType(written);
        RecordWriter<InternalRow> writer = write.createWriter(split.partition(), 0);
        long changed = 0;
        try (RecordReaderIterator<InternalRow> rows = new RecordReaderIterator<>(
                ((InnerTableRead) table.newRead()).withReadType(read).createReader(part))) {
            while (rows.hasNext()) {
                InternalRow row = rows.next();
                boolean hit = wanted.contains(Values.toJson(
                        InternalRow.createFieldGetter(read.getTypeAt(chosen), chosen).getFieldOrNull(row),
                        read.getTypeAt(chosen)));
                changed += hit ? 1 : 0;
                GenericRow out = new GenericRow(written.getFieldCount());
                for (int i = 0; i < written.getFieldCount(); i++) {
                    String name = written.getFieldNames().get(i);
                    int place = read.getFieldIndex(name);
                    Object value = hit && set.has(name)
                            ? Values.fromJson(set.get(name), written.getTypeAt(i))
                            : InternalRow.createFieldGetter(read.getTypeAt(place), place).getFieldOrNull(row);
                    out.setField(i, hit && name.equals(SpecialFields.SEQUENCE_NUMBER.name()) ? null : value);
                }
                writer.write(out);
            }
        }
        List<DataFileMeta> made = new ArrayList<>();
        for (DataFileMeta file : writer.prepareCommit(false).newFilesIncrement().newFiles()) {
            made.add(evolves ? file.assignFirstRowId(group.get(0).nonNullFirstRowId()) : file);
        }
        writer.close();
        write.close();
        return changed == 0 ? Collections.emptyList() : made;
    }

    /** Move the files of the postpone bucket into `bucketCount` real buckets, as the dedicated compaction job does. */
    private static List<CommitMessage> compactPostpone(FileStoreTable table, String user, int bucketCount)
            throws Exception {
        long snapshotId = table.snapshotManager().latestSnapshotId();
        FileStoreTable real = PostponeUtils.tableForPostponeCompact(table, bucketCount, snapshotId);
        List<DataSplit> pending = new ArrayList<>();
        for (Split split : table.newSnapshotReader().withBucket(BucketMode.POSTPONE_BUCKET).read().splits()) {
            pending.add((DataSplit) split);
        }
        List<CommitMessage> messages = new ArrayList<>();
        try (IOManager spill = Tables.spillArea();
                TableWriteImpl<?> write = real.newWrite(user).withIOManager(spill)) {
            for (DataSplit split : pending) {
                replay(table, split, write);
                messages.add(new CommitMessageImpl(
                        split.partition(), split.bucket(), split.totalBuckets(), DataIncrement.emptyIncrement(),
                        new CompactIncrement(split.dataFiles(), Collections.emptyList(), Collections.emptyList())));
            }
            for (CommitMessage one : write.prepareCommit(true, Long.MAX_VALUE)) {
                CommitMessageImpl message = (CommitMessageImpl) one;
                BucketFiles files = new BucketFiles(
                        table.store().pathFactory().createDataFilePathFactory(message.partition(), message.bucket()),
                        table.fileIO());
                files.update(message);
                messages.add(files.makeMessage(message.partition(), message.bucket()));
            }
        }
        return messages;
    }

    private static void replay(FileStoreTable table, DataSplit split, TableWriteImpl<?> write) throws Exception {
        List<DataFileMeta> files = new ArrayList<>(split.dataFiles());
        files.sort(Comparator.comparing(DataFileMeta::creationTime));
        for (DataFileMeta file : files) {
            DataSplit one = DataSplit.builder().withSnapshot(split.snapshotId()).withPartition(split.partition())
                    .withBucket(split.bucket()).withBucketPath(split.bucketPath())
                    .withTotalBuckets(split.totalBuckets()).withDataFiles(Collections.singletonList(file))
                    .isStreaming(false).build();
            try (RecordReaderIterator<InternalRow> rows =
                    new RecordReaderIterator<>(table.newRead().forceKeepDelete().createReader(one))) {
                while (rows.hasNext()) {
                    InternalRow row = rows.next();
                    write.write(row, write.getBucket(row));
                }
            }
        }
    }

    /** Delete the rows of an append table whose `column` is one of `values`, by deletion vectors. */
    static ObjectNode deleteRows(JsonNode call) throws Exception {
        FileStoreTable table = Tables.open(call);
        Set<JsonNode> doomed = new HashSet<>();
        int field = table.rowType().getFieldIndex(call.get("column").asText());
        DataType type = table.rowType().getTypeAt(field);
        call.get("values").forEach(value -> doomed.add(Values.toJson(Values.fromJson(value, type), type)));
        InternalRow.FieldGetter getter = InternalRow.createFieldGetter(type, field);
        Map<String, BaseAppendDeleteFileMaintainer> maintainers = new HashMap<>();
        Map<String, Integer> totalBuckets = new HashMap<>();
        long deleted = 0;
        for (Split one : table.newSnapshotReader().read().splits()) {
            DataSplit split = (DataSplit) one;
            BaseAppendDeleteFileMaintainer maintainer =
                    maintainers.computeIfAbsent(split.bucketPath(), path -> maintainer(table, split));
            totalBuckets.put(split.bucketPath(), split.totalBuckets());
            for (DataFileMeta file : split.dataFiles()) {
                DeletionVector vector = table.coreOptions().deletionVectorBitmap64()
                        ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
                long position = 0;
                try (RecordReaderIterator<InternalRow> rows =
                        new RecordReaderIterator<>(table.newRead().createReader(withoutVectors(split, file)))) {
                    for (; rows.hasNext(); position++) {
                        if (doomed.contains(Values.toJson(getter.getFieldOrNull(rows.next()), type))) {
                            vector.delete(position);
                        }
                    }
                }
                if (!vector.isEmpty()) {
                    deleted += vector.getCardinality();
                    maintainer.notifyNewDeletionVector(file.fileName(), vector);
                }
            }
        }
        List<CommitMessage> messages = new ArrayList<>();
        maintainers.forEach((path, maintainer) -> messages.add(message(maintainer, totalBuckets.get(path))));
        try (TableCommitImpl commit = table.newCommit(call.path("user").asText("java-delete"))) {
            commit.commit(Long.MAX_VALUE, messages);
        }
        return Values.JSON.createObjectNode().put("ok", true).put("deleted", deleted);
    }

    private static BaseAppendDeleteFileMaintainer maintainer(FileStoreTable table, DataSplit split) {
        IndexFileHandler handler = table.store().newIndexFileHandler();
        Snapshot snapshot = table.snapshotManager().latestSnapshot();
        BinaryRow partition = split.partition().copy();
        return table.bucketMode() == BucketMode.BUCKET_UNAWARE
                ? BaseAppendDeleteFileMaintainer.forUnawareAppend(handler, snapshot, partition)
                : BaseAppendDeleteFileMaintainer.forBucketedAppend(handler, snapshot, partition, split.bucket());
    }

    private static DataSplit withoutVectors(DataSplit split, DataFileMeta file) {
        return DataSplit.builder().withSnapshot(split.snapshotId()).withPartition(split.partition())
                .withBucket(split.bucket()).withBucketPath(split.bucketPath()).withTotalBuckets(split.totalBuckets())
                .withDataFiles(Collections.singletonList(file)).rawConvertible(true).build();
    }

    private static CommitMessage message(BaseAppendDeleteFileMaintainer maintainer, Integer totalBuckets) {
        List<IndexFileMeta> added = new ArrayList<>();
        List<IndexFileMeta> removed = new ArrayList<>();
        for (IndexManifestEntry entry : maintainer.persist()) {
            (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
        }
        DataIncrement increment = new DataIncrement(
                new ArrayList<>(), new ArrayList<>(), new ArrayList<>(), added, removed);
        return new CommitMessageImpl(
                maintainer.getPartition(), maintainer.getBucket(), totalBuckets, increment,
                CompactIncrement.emptyIncrement());
    }
}
