import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InputFileName;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.Option;
import scala.collection.Iterable;
import scala.collection.Seq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Adds the rule below to those of a session whose analyzer exists, once. */
public void installRule(Object session, String refusal) throws Exception {
  Analyzer analyzer = ((SparkSession) session).sessionState().analyzer();
  Seq present = analyzer.postHocResolutionRules();
  ArrayList rules = new ArrayList();
  for (int i = 0; i < present.size(); i++) {
    if (present.apply(i) instanceof TableWrites) {
      return;
    }
    rules.add(present.apply(i));
  }
  rules.add(new TableWrites(refusal));
  Field field = analyzer.getClass().getDeclaredField("postHocResolutionRules");
  field.setAccessible(true);
  field.set(analyzer, seq(rules));
}

public Object rule(String refusal) {
  return new TableWrites(refusal);
}

/**
 * Adds an option to the writes of our tables: whether columns match by name or by position, which Spark tells no table.
 * An overwrite of the partitions that the rows are in becomes an append with that option, as Spark hands over the rows
 * of an append as a DataFrame. Refuses what Spark would plan, but cannot run.
 */
public static class TableWrites extends Rule {
  private final String refusal;

  /** `refusal`: the message for Paimon tables in Spark's session catalog. */
  TableWrites(String refusal) {
    this.refusal = refusal;
  }

  public TreeNode apply(TreeNode plan) {
    try {
      return changed(FilePaths.named((LogicalPlan) plan));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private LogicalPlan changed(LogicalPlan plan) throws ReflectiveOperationException {
    if (plan instanceof V2WriteCommand) {
      return write(plan, (V2WriteCommand) plan);
    }
    if (plan instanceof MergeIntoTable) {
      refuse((MergeIntoTable) plan);
    }
    refuseUnreadable(plan);
    if (!(plan instanceof Union) && !(plan instanceof WithCTE)) {
      return plan;
    }
    Seq children = plan.children();
    boolean isChanged = false;
    ArrayList made = new ArrayList();
    for (int i = 0; i < children.size(); i++) {
      Object now = changed((LogicalPlan) children.apply(i));
      isChanged = isChanged || now != children.apply(i);
      made.add(now);
    }
    return isChanged ? (LogicalPlan) plan.withNewChildren(seq(made)) : plan;
  }

  private static LogicalPlan write(LogicalPlan plan, V2WriteCommand command) throws ReflectiveOperationException {
    Object target = command.table();
    if (!isOurs(target)) {
      return plan;
    }
    DataSourceV2Relation relation = (DataSourceV2Relation) target;
    Object key = ((Supplier) relation.table()).get();
    // Of SQL the relation has the options, of DataFrames both; Spark takes those of the command, if it has any.
    HashMap options = new HashMap(relation.options().asCaseSensitiveMap());
    boolean isDynamic = plan instanceof OverwritePartitionsDynamic;
    String kind = (isDynamic ? "dynamic " : "") + (command.isByName() ? "name" : "position");
    Object[] arguments = new Object[plan.productArity() + (isDynamic ? 1 : 0)];
    for (int i = 0; i < plan.productArity(); i++) {
      Object argument = plan.productElement(i);
      if (argument == target) {
        argument = withoutOptions(relation);
      } else if (argument instanceof Map) {
        options.putAll(CollectionConverters.asJava((scala.collection.Map) argument));
        options.putIfAbsent(key, kind);
        argument = Map$.MODULE$.from(CollectionConverters.asScala((java.util.Map) options));
      }
      arguments[i] = argument;
    }
    if (!isDynamic) {
      return (LogicalPlan) plan.makeCopy(arguments);
    }
    arguments[arguments.length - 1] = Option.empty();  // an append has one field more, behind the others
    return (LogicalPlan) AppendData.class.getConstructors()[0].newInstance(arguments);
  }

  private static Object withoutOptions(DataSourceV2Relation relation) {
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      Object argument = relation.productElement(i);
      arguments[i] = argument instanceof CaseInsensitiveStringMap ? CaseInsensitiveStringMap.empty() : argument;
    }
    return relation.makeCopy(arguments);
  }

  /** Refuses to register a table in Spark's session catalog, where nobody could read it. */
  private void refuseUnreadable(LogicalPlan plan) {
    ResolvedIdentifier name = null;
    Object provider = null;
    for (int i = 0; i < plan.productArity(); i++) {
      Object field = plan.productElement(i);
      if (field instanceof ResolvedIdentifier) {
        name = (ResolvedIdentifier) field;
      } else if (field instanceof TableSpecBase) {
        Option given = ((TableSpecBase) field).provider();
        provider = given.isEmpty() ? null : given.get();
      }
    }
    boolean isPaimon = "paimon".equalsIgnoreCase((String) provider) || "paimon_py".equalsIgnoreCase((String) provider);
    if (isPaimon && name != null && name.catalog().name().equals("spark_catalog") && hasCatalogs()) {
      throw new UnsupportedOperationException(refusal);
    }
  }

  private static boolean hasCatalogs() {
    Iterator settings = CollectionConverters.asJava(
        (scala.collection.Map) SQLConf.get().getAllConfs()).values().iterator();
    while (settings.hasNext()) {
      if (settings.next().equals("paimon_spark")) {
        return true;
      }
    }
    return false;
  }

  private static boolean isOurs(Object relation) {
    return relation instanceof DataSourceV2Relation
        && ((DataSourceV2Relation) relation).table() instanceof Supplier;
  }

  private static void refuse(MergeIntoTable merge) {
    LogicalPlan target = EliminateSubqueryAliases$.MODULE$.apply(merge.targetTable());
    if (isOurs(target)) {
      String name = ((DataSourceV2Relation) target).table().name();
      throw new UnsupportedOperationException("mergeInto of " + name + " is not supported; use "
          + "spark.sql('MERGE INTO " + name + " AS t USING {df} AS s ON …', df=df)");
    }
  }
}

/** Replaces `input_file_name()` by the column of file paths where Python reads, as Spark then knows no file. */
public static class FilePaths extends AbstractPartialFunction {
  private static final String NAME = "__paimon_file_path";
  private static final String INDEX = "__paimon_row_index";
  private final Object path;

  FilePaths(Object path) {
    this.path = path;
  }

  public boolean isDefinedAt(Object expression) {
    return expression instanceof InputFileName;
  }

  public Object applyOrElse(Object expression, Function1 other) {
    return isDefinedAt(expression) ? path : other.apply(expression);
  }

  static LogicalPlan named(LogicalPlan plan) {
    LogicalPlan made = replaced(plan);
    return made == plan
        ? plan
        : (LogicalPlan) SparkSession.active().sessionState().analyzer().AddMetadataColumns().apply(made);
  }

  private static LogicalPlan replaced(LogicalPlan plan) {
    Seq children = plan.children();
    boolean isChanged = false;
    ArrayList made = new ArrayList();
    for (int i = 0; i < children.size(); i++) {
      Object now = replaced((LogicalPlan) children.apply(i));
      isChanged = isChanged || now != children.apply(i);
      made.add(now);
    }
    LogicalPlan now = isChanged ? (LogicalPlan) plan.withNewChildren(seq(made)) : plan;
    if (children.size() != 1 || !isNamed(now.expressions())) {
      return now;
    }
    Object path = path((LogicalPlan) now.children().apply(0));
    return path == null ? now : (LogicalPlan) now.transformExpressions(new FilePaths(path));
  }

  private static boolean isNamed(Seq expressions) {
    for (int i = 0; i < expressions.size(); i++) {
      Expression expression = (Expression) expressions.apply(i);
      if (expression instanceof InputFileName || isNamed(expression.children())) {
        return true;
      }
    }
    return false;
  }

  /** The column of the only table of a plan; null where it has none, or Spark reads it. */
  private static Object path(LogicalPlan plan) {
    Seq leaves = plan.collectLeaves();
    if (leaves.size() != 1 || !(leaves.apply(0) instanceof DataSourceV2Relation)) {
      return null;
    }
    DataSourceV2Relation relation = (DataSourceV2Relation) leaves.apply(0);
    if (!(relation.table() instanceof BooleanSupplier)) {
      return null;
    }
    Object named = column(plan.output(), NAME);
    if (named != null) {
      return named;
    }
    // Python reads the files if the query names the place of a row.
    boolean isPython = column(relation.output(), NAME) != null || column(relation.output(), INDEX) != null
        || ((BooleanSupplier) relation.table()).getAsBoolean();
    return isPython ? column(plan.metadataOutput(), NAME) : null;
  }

  private static Object column(Seq columns, String name) {
    for (int i = 0; i < columns.size(); i++) {
      if (((Attribute) columns.apply(i)).name().equals(name)) {
        return columns.apply(i);
      }
    }
    return null;
  }
}

private static scala.collection.immutable.Seq seq(List items) {
  return ((Iterable) CollectionConverters.asScala(items)).toSeq();
}
