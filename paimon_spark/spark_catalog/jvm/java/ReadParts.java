import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Adds the rule below to those of a session, once. */
public void installRule(Object session) {
  ExperimentalMethods methods = ((SparkSession) session).experimental();
  Seq present = methods.extraOptimizations();
  ArrayList rules = new ArrayList();
  for (int i = 0; i < present.size(); i++) {
    if (present.apply(i) instanceof ReadParts) {
      return;
    }
    rules.add(present.apply(i));
  }
  rules.add(new ReadParts());
  methods.extraOptimizations_$eq(seq(rules));
}

/** Replaces a scan that gives parts by their union. The parts may have different readers. */
public static class ReadParts extends Rule {
  public TreeNode apply(TreeNode plan) {
    return rewritten((LogicalPlan) plan);
  }

  private static LogicalPlan rewritten(LogicalPlan plan) {
    if (plan instanceof DataSourceV2ScanRelation) {
      return union(plan, plan);
    }
    Seq children = plan.children();
    if (plan instanceof Filter && children.apply(0) instanceof DataSourceV2ScanRelation) {
      // Each part gets the conditions, so that those which become known while the query runs skip partitions of it.
      return union(plan, (LogicalPlan) children.apply(0));
    }
    boolean changed = false;
    ArrayList made = new ArrayList();
    for (int i = 0; i < children.size(); i++) {
      Object now = rewritten((LogicalPlan) children.apply(i));
      changed = changed || now != children.apply(i);
      made.add(now);
    }
    return changed ? (LogicalPlan) plan.withNewChildren(seq(made)) : plan;
  }

  private static LogicalPlan union(LogicalPlan top, LogicalPlan leaf) {
    DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) leaf;
    if (!(relation.scan() instanceof Supplier)) {
      return top;
    }
    Object[] parts = (Object[]) ((Supplier) relation.scan()).get();
    if (parts == null) {
      return top;
    }
    ArrayList made = new ArrayList();
    for (int i = 0; i < parts.length; i++) {
      made.add(part(top, relation, parts[i], i == 0));
    }
    return new Union(seq(made), false, false);
  }

  private static Object part(LogicalPlan top, DataSourceV2ScanRelation relation, Object scan, boolean isFirst) {
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      arguments[i] = relation.productElement(i);
    }
    arguments[1] = scan;
    ArrayList columns = new ArrayList();
    ArrayList pairs = new ArrayList();
    for (int i = 0; i < relation.output().size(); i++) {
      Object old = relation.output().apply(i);
      Object fresh = ((Attribute) old).newInstance();
      columns.add(fresh);
      pairs.add(new Tuple2(old, fresh));
    }
    if (!isFirst) {  // a union has the columns of its first part
      arguments[2] = seq(columns);
    }
    LogicalPlan made = (LogicalPlan) relation.makeCopy(arguments);
    if (top == relation) {
      return made;
    }
    ArrayList child = new ArrayList();
    child.add(made);
    LogicalPlan filtered = (LogicalPlan) top.withNewChildren(seq(child));
    return isFirst ? filtered : filtered.rewriteAttrs(AttributeMap$.MODULE$.apply(seq(pairs)));
  }
}

private static scala.collection.immutable.Seq seq(List items) {
  return ((Iterable) CollectionConverters.asScala(items)).toSeq();
}
