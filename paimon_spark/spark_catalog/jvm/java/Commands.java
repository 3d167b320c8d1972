import java.util.concurrent.Callable;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.command.RunnableCommand;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** The plan of a statement that Python runs when Spark executes it. `rows`: runs it; its rows are a `Row[]`. */
public Object command(String text, Object columns, Object rows) {
  return new PaimonStatement(text, DataTypeUtils.toAttributes((StructType) columns), (Callable) rows);
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
