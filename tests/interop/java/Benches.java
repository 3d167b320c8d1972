import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.RowType;

/** What benchmarks measure of Java Paimon: seconds of one operation, and what shows that it did the same work. */
final class Benches {

    /** Rows to write, kept in memory: by the table they were read from. */
    private static final Map<String, List<BinaryRow>> SOURCES = new HashMap<>();

    private Benches() {}

    static ObjectNode measure(JsonNode call) throws Exception {
        System.gc();
        switch (call.get("does").asText()) {
            case "read":
                return read(call);
            case "plan":
                return plan(call);
            case "write":
                return write(call);
            case "compact":
                return compact(call);
            case "commits":
                return commits(call);
            default:
                throw new IllegalArgumentException("no benchmark " + call.get("does"));
        }
    }

    /** Every row of the newest snapshot, by `threads` threads, which count them and look at no value. */
    private static ObjectNode read(JsonNode call) throws Exception {
        long start = System.nanoTime();
        FileStoreTable table = Tables.open(call);
        long rows = count(call, table);
        double seconds = since(start);
        return reply(seconds, rows, call.path("check").asBoolean(true) ? checksum(call, table) : 0);
    }

    private static ObjectNode plan(JsonNode call) {
        long start = System.nanoTime();
        List<Split> splits = builder(call, Tables.open(call)).newScan().plan().splits();
        long found = splits.size();
        if (!call.path("count").asText().equals("splits")) {
            found = splits.stream().mapToLong(split -> ((DataSplit) split).dataFiles().size()).sum();
        }
        return reply(since(start), found, 0);
    }

    /** The rows of the table `source`, which are in memory, into the empty table `path`, in `commits` commits. */
    private static ObjectNode write(JsonNode call) throws Exception {
        List<BinaryRow> rows = source(call.get("source").asText());
        int commits = call.path("commits").asInt(1);
        System.gc();
        long start = System.nanoTime();
        FileStoreTable table = Tables.open(call);
        for (int i = 0; i < commits; i++) {
            long size = rows.size();
            commit(table, rows.subList((int) (size * i / commits), (int) (size * (i + 1) / commits)));
        }
        double seconds = since(start);
        return reply(seconds, count(call, table), checksum(call, table));
    }

    /** The median time of 30 commits of one row of the table `source` to a table of `at` snapshots of such commits. */
    private static ObjectNode commits(JsonNode call) throws Exception {
        List<BinaryRow> row = source(call.get("source").asText()).subList(0, 1);
        FileStoreTable table = Tables.open(call);
        int at = call.get("at").asInt();
        for (int i = 0; i < at; i++) {
            commit(table, row);
        }
        double[] times = new double[30];
        for (int i = 0; i < times.length; i++) {
            long start = System.nanoTime();
            commit(table, row);
            times[i] = since(start);
        }
        Arrays.sort(times);
        return reply((times[14] + times[15]) / 2, at, 0);
    }

    private static void commit(FileStoreTable table, List<BinaryRow> rows) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (IOManager spill = Tables.spillArea();
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(spill);
            for (BinaryRow row : rows) {
                write.write(row);
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static ObjectNode compact(JsonNode call) throws Exception {
        long start = System.nanoTime();
        Rewrites.compact(call);
        double seconds = since(start);
        FileStoreTable table = Tables.open(call);
        return reply(seconds, count(call, table), checksum(call, table));
    }

    private static List<BinaryRow> source(String path) throws Exception {
        List<BinaryRow> known = SOURCES.get(path);
        if (known == null) {
            SOURCES.clear();
            ObjectNode call = Values.JSON.createObjectNode().put("path", path);
            FileStoreTable table = Tables.open(call);
            InternalRowSerializer serializer = new InternalRowSerializer(table.rowType());
            List<BinaryRow> rows = new ArrayList<>();
            ReadBuilder builder = table.newReadBuilder();
            try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan())) {
                reader.forEachRemaining(row -> rows.add(serializer.toBinaryRow(row).copy()));
            }
            SOURCES.put(path, rows);
            known = rows;
        }
        return known;
    }

    private static ReadBuilder builder(JsonNode call, FileStoreTable table) {
        ReadBuilder builder = table.newReadBuilder();
        List<String> columns = Values.texts(call.get("columns"));
        return columns.isEmpty() ? builder : builder.withReadType(table.rowType().project(columns));
    }

    private static long count(JsonNode call, FileStoreTable table) throws Exception {
        return parallel(call, builder(call, table), batch -> {
            long count = 0;
            while (batch.next() != null) {
                count++;
            }
            return count;
        });
    }

    /** The sum of all values of integer columns, modulo 2**64, as the other workers have it. */
    private static long checksum(JsonNode call, FileStoreTable table) throws Exception {
        ReadBuilder builder = builder(call, table);
        RowType type = builder.readType();
        List<Integer> longs = new ArrayList<>();
        List<Integer> ints = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            if (type.getTypeAt(i).is(DataTypeRoot.BIGINT)) {
                longs.add(i);
            } else if (type.getTypeAt(i).is(DataTypeRoot.INTEGER)) {
                ints.add(i);
            }
        }
        return parallel(call, builder, batch -> {
            long sum = 0;
            for (InternalRow row = batch.next(); row != null; row = batch.next()) {
                for (int i : longs) {
                    sum += row.isNullAt(i) ? 0 : row.getLong(i);
                }
                for (int i : ints) {
                    sum += row.isNullAt(i) ? 0 : row.getInt(i);
                }
            }
            return sum;
        });
    }

    private interface OfBatch {
        long of(RecordReader.RecordIterator<InternalRow> batch) throws Exception;
    }

    /** The sum of what `work` makes of every batch; threads take one split after the other. */
    private static long parallel(JsonNode call, ReadBuilder builder, OfBatch work) throws Exception {
        List<Split> splits = part(call, builder.newScan().plan().splits());
        ExecutorService pool = Executors.newFixedThreadPool(call.path("threads").asInt(1));
        try {
            List<Future<Long>> parts = new ArrayList<>();
            for (Split split : splits) {
                parts.add(pool.submit(() -> ofSplit(builder, split, work)));
            }
            long total = 0;
            for (Future<Long> part : parts) {
                total += part.get();
            }
            return total;
        } finally {
            pool.shutdown();
        }
    }

    /** The splits that are this process's: those of number `part[0]` of every `part[1]`. */
    private static List<Split> part(JsonNode call, List<Split> splits) {
        if (!call.has("part")) {
            return splits;
        }
        List<Split> own = new ArrayList<>();
        for (int i = call.get("part").get(0).asInt(); i < splits.size(); i += call.get("part").get(1).asInt()) {
            own.add(splits.get(i));
        }
        return own;
    }

    private static long ofSplit(ReadBuilder builder, Split split, OfBatch work) throws Exception {
        long total = 0;
        try (IOManager spill = Tables.spillArea();
                RecordReader<InternalRow> reader =
                        builder.newRead().withIOManager(spill).createReader(split)) {
            for (RecordReader.RecordIterator<InternalRow> batch = reader.readBatch();
                    batch != null;
                    batch = reader.readBatch()) {
                total += work.of(batch);
                batch.releaseBatch();
            }
        }
        return total;
    }

    private static double since(long start) {
        return (System.nanoTime() - start) / 1e9;
    }

    private static ObjectNode reply(double seconds, long rows, long checksum) {
        ObjectNode reply = Values.JSON.createObjectNode().put("seconds", seconds).put("rows", rows);
        reply.put("checksum", new java.math.BigInteger(Long.toUnsignedString(checksum)));
        return reply;
    }
}
