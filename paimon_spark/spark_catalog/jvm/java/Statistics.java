import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.commons.lang3.StringUtils;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Estimates of a scan. The texts are numbers; empty: not known. `columns` has seven texts for each column, separated by
 * NUL: name, numbers of distinct values and of nulls, average and largest length, smallest and largest value.
 */
public Object statistics(String size, String rows, Object schema, String columns) {
  HashMap known = new HashMap();
  String[] texts = StringUtils.splitByWholeSeparatorPreserveAllTokens(columns, "\u0000");
  for (int i = 0; i + 6 < texts.length; i += 7) {
    DataType type = ((StructType) schema).apply(texts[i]).dataType();
    known.put(FieldReference.column(texts[i]), new ColumnNumbers(optional(texts[i + 1]), optional(texts[i + 2]),
        optional(texts[i + 3]), optional(texts[i + 4]), value(texts[i + 5], texts[i], type),
        value(texts[i + 6], texts[i], type)));
  }
  return new Numbers(optional(size), optional(rows), known);
}

/** A bound; none where Spark cannot read the text, which another writer may have made. */
private static Optional value(String text, String name, DataType type) {
  if (text.isEmpty()) {
    return Optional.empty();
  }
  try {
    return Optional.ofNullable(CatalogColumnStat.fromExternalString(text, name, type, CatalogColumnStat.VERSION()));
  } catch (Exception e) {
    return Optional.empty();
  }
}

private static OptionalLong optional(String text) {
  return text.isEmpty() ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(text));
}

public static class Numbers implements Statistics {
  private final OptionalLong size;
  private final OptionalLong rows;
  private final Map columns;
  Numbers(OptionalLong size, OptionalLong rows, Map columns) {
    this.size = size;
    this.rows = rows;
    this.columns = columns;
  }
  public OptionalLong sizeInBytes() { return size; }
  public OptionalLong numRows() { return rows; }
  public Map columnStats() { return columns; }
}

public static class ColumnNumbers implements ColumnStatistics {
  private final OptionalLong distinct;
  private final OptionalLong nulls;
  private final OptionalLong average;
  private final OptionalLong longest;
  private final Optional smallest;
  private final Optional largest;
  ColumnNumbers(OptionalLong distinct, OptionalLong nulls, OptionalLong average,
      OptionalLong longest, Optional smallest, Optional largest) {
    this.distinct = distinct;
    this.nulls = nulls;
    this.average = average;
    this.longest = longest;
    this.smallest = smallest;
    this.largest = largest;
  }
  public OptionalLong distinctCount() { return distinct; }
  public OptionalLong nullCount() { return nulls; }
  public OptionalLong avgLen() { return average; }
  public OptionalLong maxLen() { return longest; }
  public Optional min() { return smallest; }
  public Optional max() { return largest; }
}
