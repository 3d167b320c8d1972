import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.CompoundPlanStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SingleStatement;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.command.RunnableCommand;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Some;
import scala.collection.Iterable;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The plan of a statement that Python runs when Spark executes it. `rows`: runs it; its rows are a `Row[]`. */
public Object command(String text, Object columns, Object rows) {
  return new PaimonStatement(text, DataTypeUtils.toAttributes((StructType) columns), (Callable) rows);
}

/**
 * A script, BEGIN … END, in which `commands` has replaced statements: a function of their texts, of which it returns the
 * plan, or null to leave a statement as it is.
 */
public Object script(Object plan, Object commands) {
  return replaced((LogicalPlan) plan, (Function) commands);
}

private static LogicalPlan replaced(LogicalPlan plan, Function commands) {
  if (plan instanceof SingleStatement) {
    Object made = commands.apply(((SingleStatement) plan).getText());
    return made == null ? plan : (LogicalPlan) plan.makeCopy(new Object[] {made});
  }
  Object[] parts = new Object[plan.productArity()];
  boolean isChanged = false;
  for (int i = 0; i < parts.length; i++) {
    Object part = plan.productElement(i);
    parts[i] = replacedPart(part, commands);
    isChanged = isChanged || parts[i] != part;
  }
  return isChanged ? (LogicalPlan) plan.makeCopy(parts) : plan;
}

private static Object replacedPart(Object part, Function commands) {
  if (part instanceof CompoundPlanStatement) {
    return replaced((LogicalPlan) part, commands);
  }
  if (part instanceof Some) {
    Object value = ((Some) part).value();
    Object made = replacedPart(value, commands);
    return made == value ? part : new Some(made);
  }
  if (!(part instanceof Seq)) {
    return part;
  }
  Seq items = (Seq) part;
  ArrayList made = new ArrayList();
  boolean isChanged = false;
  for (int i = 0; i < items.size(); i++) {
    made.add(replacedPart(items.apply(i), commands));
    isChanged = isChanged || made.get(i) != items.apply(i);
  }
  return isChanged ? ((Iterable) CollectionConverters.asScala((List) made)).toSeq() : part;
}

/** A statement: Spark executes commands once, and computes nothing of their rows again. */
public static class PaimonStatement extends LogicalPlan implements RunnableCommand {
  private final String text;
  private final Seq output;
  private final Callable rows;

  public PaimonStatement(String text, Seq output, Callable rows) {
    this.text = text;
    this.output = output;
    this.rows = rows;
  }

  public Seq run(SparkSession session) {
    try {
      return ArraySeq.unsafeWrapArray(rows.call());
    } catch (Exception e) {
      Platform.throwException(e);  // Scala declares no exceptions, and Spark's own are checked
      throw new IllegalStateException(e);
    }
  }

  public Seq output() { return output; }

  public AttributeSet producedAttributes() { return outputSet(); }

  public Seq children() { return (Seq) Nil$.MODULE$; }

  public TreeNode withNewChildrenInternal(IndexedSeq children) { return this; }

  public Map metrics() { return (Map) Map$.MODULE$.empty(); }

  public Seq nodePatterns() {
    return ArraySeq.unsafeWrapArray(new Object[] {TreePattern.COMMAND()});
  }

  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq patterns) {}

  public int productArity() { return 3; }

  public Object productElement(int index) { return index == 0 ? text : index == 1 ? (Object) output : rows; }

  public boolean canEqual(Object other) { return other instanceof PaimonStatement; }

  public String nodeName() { return "PaimonStatement"; }

  public String argString(int maxFields) { return text; }
}
