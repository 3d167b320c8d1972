import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.commons.lang3.StringUtils;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CompoundPlanStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SingleStatement;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.Product;
import scala.Some;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.Iterable;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/** The plan of a statement, not analyzed, as the session's settings have it. `parser`: null for that of the session. */
public Object parsed(final Object session, final Object parser, final String sql) {
  return ((SparkSession) session).withActive(new AbstractFunction0() {
    public Object apply() {
      ParserInterface found = ((SparkSession) session).sessionState().sqlParser();
      try {
        return (parser == null ? found : (ParserInterface) parser).parsePlan(sql);
      } catch (Exception e) {
        throw sneaky(e);
      }
    }
  });
}

/**
 * The rows of a plan that is not analyzed; commands run. Tables of the catalog that Spark has under a name are no longer
 * looked up there: Spark would do so again for each use of a temporary view (4.3).
 */
public Object rows(Object session, Object plan, String name) {
  Dataset found = Dataset$.MODULE$.ofRows((SparkSession) session, (LogicalPlan) plan);
  LogicalPlan analyzed = found.queryExecution().analyzed();
  if (analyzed instanceof Command) {
    return found;
  }
  Names walk = new Names((SparkSession) session, name + "\n\n", "", false);
  walk.detaches = true;
  Object detached = walk.of(analyzed, new HashSet());
  return detached == analyzed ? found : Dataset$.MODULE$.ofRows((SparkSession) session, (LogicalPlan) detached);
}

/** A command that keeps the plan of its query, `plan`, and not its text. */
public Object keepingPlan(Object command, Object plan) {
  Object[] now = new Object[((Product) command).productArity()];
  for (int i = 0; i < now.length; i++) {
    String name = ((Product) command).productElementName(i);
    now[i] = name.equals("plan") ? plan : name.equals("originalText") ? Option.empty()
        : ((Product) command).productElement(i);
  }
  return ((TreeNode) command).makeCopy(now);
}

/**
 * The relations of a plan whose names are those of tables of a catalog, its versions of relations, and its calls of
 * certain table functions.
 * `functions`: names of functions, separated by spaces. For the others see `qualified`.
 */
public Object found(Object session, Object plan, String names, String functions, boolean seesViews) {
  Names walk = new Names((SparkSession) session, names, functions, seesViews);
  walk.of(plan, new HashSet());
  return walk.found;
}

/**
 * The plan with the full names of tables, databases and functions of a catalog. Plans of `plans` replace the nodes of
 * `nodes`. `names`: as which Spark has the catalog, its current database, its own name, then other catalogs, in lines.
 * `seesViews`: whether temporary views hide tables.
 *
 * Source: Spark catalyst/analysis/RelationResolution.scala, `expandIdentifier`; CTESubstitution.scala.
 */
public Object qualified(Object session, Object plan, String names, boolean seesViews, Object nodes, Object plans) {
  Names walk = new Names((SparkSession) session, names, "", seesViews);
  for (int i = 0; i < ((List) nodes).size(); i++) {
    walk.replaced.put(((List) nodes).get(i), ((List) plans).get(i));
  }
  return walk.of(plan, new HashSet());
}

/**
 * A script, BEGIN … END, in which `commands` has replaced statements: a function of their texts, of which it returns the
 * plan, or null to leave a statement as it is.
 */
public Object script(Object plan, Object commands) {
  return new Script((Function) commands).of(plan, new HashSet());
}

private static RuntimeException sneaky(Exception e) {
  org.apache.spark.unsafe.Platform.throwException(e);
  return null;
}

/** Other nodes in place of those of a plan; what does not change stays the same object. */
public abstract static class Walk {
  /** What is in place of a node. */
  abstract Object node(TreeNode node, Set ctes);

  /** What is in place of a node or a collection of nodes; `ctes` are the names that WITH defines here. */
  Object of(Object value, Set ctes) {
    if (value instanceof TreeNode) {
      return node((TreeNode) value, ctes);
    }
    if (value instanceof Some) {
      Object inner = ((Some) value).get();
      Object now = of(inner, ctes);
      return now == inner ? value : new Some(now);
    }
    if (value instanceof Tuple2) {
      Tuple2 pair = (Tuple2) value;
      Object first = of(pair._1(), ctes);
      Object second = of(pair._2(), ctes);
      return first == pair._1() && second == pair._2() ? value : new Tuple2(first, second);
    }
    return value instanceof Seq ? items((Seq) value, ctes) : value;
  }

  private Object items(Seq items, Set ctes) {
    ArrayList made = new ArrayList();
    boolean changed = false;
    scala.collection.Iterator each = items.iterator();
    while (each.hasNext()) {
      Object item = each.next();
      Object now = of(item, ctes);
      changed = changed || now != item;
      made.add(now);
    }
    return changed ? seq(made) : items;
  }

  /** Replaces the parts of a node, and returns whether one has changed. */
  boolean replace(Object[] parts, Set ctes) {
    boolean changed = false;
    for (int i = 0; i < parts.length; i++) {
      Object now = of(parts[i], ctes);
      changed = changed || now != parts[i];
      parts[i] = now;
    }
    return changed;
  }

  static Object[] parts(TreeNode node) {
    Object[] out = new Object[((Product) node).productArity()];
    for (int i = 0; i < out.length; i++) {
      out[i] = ((Product) node).productElement(i);
    }
    return out;
  }

  static Seq seq(List items) {
    return ((Iterable) CollectionConverters.asScala(items)).toSeq();
  }
}

/** A walk that replaces the statements of a script. */
public static class Script extends Walk {
  private final Function commands;

  Script(Function commands) {
    this.commands = commands;
  }

  Object node(TreeNode node, Set ctes) {
    if (node instanceof SingleStatement) {
      Object made = commands.apply(((SingleStatement) node).getText());
      return made == null ? node : node.makeCopy(new Object[] {made});
    }
    if (!(node instanceof CompoundPlanStatement)) {
      return node;
    }
    Object[] now = parts(node);
    return replace(now, ctes) ? node.makeCopy(now) : node;
  }
}

/** A walk that gives names of a catalog in full, and finds their nodes. */
public static class Names extends Walk {
  final ArrayList found = new ArrayList();
  final Map replaced = new IdentityHashMap();
  boolean detaches = false;
  private final SparkSession session;
  private final String catalog;
  private final String database;
  private final String own;
  private final Set others = new HashSet();
  private final Set functions = new HashSet();
  private final boolean seesViews;

  Names(SparkSession session, String names, String functions, boolean seesViews) {
    String[] lines = StringUtils.splitPreserveAllTokens(names, '\n');
    this.session = session;
    this.catalog = lines[0];
    this.database = lines[1];
    this.own = lines[2];
    this.seesViews = seesViews;
    for (int i = 3; i < lines.length; i++) {
      others.add(lines[i]);
    }
    String[] called = StringUtils.split(functions);
    for (int i = 0; i < called.length; i++) {
      this.functions.add(called[i]);
    }
  }

  Object node(TreeNode node, Set ctes) {
    if (replaced.containsKey(node)) {
      return replaced.get(node);
    }
    String kind = node.getClass().getSimpleName();
    if (node instanceof DataSourceV2Relation && detaches) {
      Option found = ((DataSourceV2Relation) node).catalog();
      if (!found.isDefined() || !((CatalogPlugin) found.get()).name().equals(catalog)) {
        return node;
      }
      Object[] arguments = parts(node);
      arguments[2] = Option.empty();
      arguments[3] = Option.empty();
      return node.makeCopy(arguments);
    }
    if (kind.equals("CurrentNamespace$")) {
      return new UnresolvedNamespace(seq(catalog, database), false);
    }
    if (kind.equals("RelationTimeTravel")) {
      found.add(node);
    }
    if (node instanceof UnresolvedWith) {
      return with((UnresolvedWith) node, ctes);
    }
    if (node instanceof UnresolvedTableValuedFunction && functions.contains(called(node))) {
      found.add(node);
    }
    Object[] now = parts(node);
    Object first = now.length > 0 ? now[0] : null;
    boolean changed = replace(now, ctes);
    if (!detaches && first instanceof Seq && isNamed(node, kind, (Seq) first, ctes)) {
      now[0] = name(kind, strings((Seq) first));
      changed = true;
    }
    return changed ? node.makeCopy(now) : node;
  }

  private Object with(UnresolvedWith with, Set outer) {
    Object[] now = parts(with);
    Set scope = new HashSet(outer);
    boolean isRecursive = now.length > 2 && Boolean.TRUE.equals(now[2]);
    ArrayList made = new ArrayList();
    scala.collection.Iterator each = ((Seq) now[1]).iterator();
    while (each.hasNext()) {
      Object relation = each.next();
      String name = String.valueOf(((Product) relation).productElement(0)).toLowerCase();
      if (isRecursive) {
        scope.add(name);
      }
      Object plan = of(((Product) relation).productElement(1), scope);
      scope.add(name);
      made.add(relation instanceof Tuple3 ? new Tuple3(((Tuple3) relation)._1(), plan, ((Tuple3) relation)._3())
          : new Tuple2(((Tuple2) relation)._1(), plan));
    }
    now[0] = of(now[0], scope);
    now[1] = seq(made);
    return with.makeCopy(now);
  }

  /** Whether a node begins with the name of a table, database or function that the catalog may have. */
  private boolean isNamed(TreeNode node, String kind, Seq name, Set ctes) {
    if (kind.equals("UnresolvedFunction")) {
      String[] parts = strings(name);
      return parts.length > 1 && parts[parts.length - 2].equalsIgnoreCase("sys")
          && (parts.length == 2 || parts[0].equalsIgnoreCase(own));
    }
    if (kind.equals("UnresolvedAttribute")) {  // a column behind the full name of its table
      return name.size() > 3 && !own.equals(catalog) && own.equalsIgnoreCase(String.valueOf(name.apply(0)));
    }
    if (kind.equals("UnresolvedNamespace")) {
      return name.isEmpty() || !others.contains(name.apply(0));
    }
    boolean reads = kind.equals("UnresolvedRelation") || kind.equals("UnresolvedTableOrView");
    boolean isTable = reads || kind.equals("UnresolvedTable") || kind.equals("UnresolvedView")
        || kind.equals("UnresolvedIdentifier") || kind.equals("UnresolvedProcedure");
    if (!isTable || name.isEmpty()) {
      return false;
    }
    String[] parts = strings(name);
    if (parts.length > 1 && (others.contains(parts[0]) || parts[0].equalsIgnoreCase("global_temp")
        || parts[parts.length - 1].indexOf('/') >= 0)) {
      return false;
    }
    boolean mayBeView = reads || (kind.equals("UnresolvedIdentifier") && ((Product) node).productArity() > 1
        && Boolean.TRUE.equals(((Product) node).productElement(1)));  // as of DROP VIEW
    if (mayBeView && parts.length == 1) {
      boolean isView = seesViews && session.sessionState().catalog().isTempView(name);
      if (isView || (kind.equals("UnresolvedRelation") && ctes.contains(parts[0].toLowerCase()))) {
        return false;
      }
    }
    if (kind.equals("UnresolvedRelation")) {
      found.add(node);
    }
    return true;
  }

  private Object name(String kind, String[] parts) {
    ArrayList made = new ArrayList();
    made.add(catalog);
    boolean hasOwn = parts.length > 0 && parts[0].equalsIgnoreCase(own)
        && (parts.length > 1 || kind.equals("UnresolvedNamespace"));
    if (parts.length == 1 && !kind.equals("UnresolvedNamespace")) {
      made.add(database);
    }
    for (int i = hasOwn ? 1 : 0; i < parts.length; i++) {
      made.add(parts[i]);
    }
    return seq(made);
  }

  private static String called(TreeNode function) {
    Seq name = ((UnresolvedTableValuedFunction) function).name();
    return name.size() == 1 ? String.valueOf(name.apply(0)).toLowerCase() : "";
  }

  private static String[] strings(Seq items) {
    String[] out = new String[items.size()];
    for (int i = 0; i < out.length; i++) {
      out[i] = String.valueOf(items.apply(i));
    }
    return out;
  }

  private static Seq seq(String first, String second) {
    ArrayList made = new ArrayList();
    made.add(first);
    made.add(second);
    return seq(made);
  }
}
