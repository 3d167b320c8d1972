import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.commons.lang3.StringUtils;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.sources.Filter;
import scala.Option;

/**
 * Conditions as JSON, a list with one value for each. An expression is a list: its name, then its children. A column is
 * {"column": [part, ...]}, a constant {"type": ..., "value": text or null}; bytes are in base 64. All else is null.
 */
public String json(Object conditions) throws Exception {
  Object[] given = (Object[]) conditions;
  ArrayList found = new ArrayList();
  for (int i = 0; i < given.length; i++) {
    found.add(value((Expression) given[i]));
  }
  return new ObjectMapper().writeValueAsString(found);
}

private static Object value(Expression of) {
  if (of instanceof NamedReference) {
    return entry("column", Arrays.asList(((NamedReference) of).fieldNames()));
  }
  if (of instanceof Literal) {
    Literal literal = (Literal) of;
    Map found = entry("type", literal.dataType().typeName());
    found.put("value", text(literal.value()));
    return found;
  }
  if (!(of instanceof GeneralScalarExpression)) {
    return null;
  }
  ArrayList found = new ArrayList();
  found.add(((GeneralScalarExpression) of).name());
  Expression[] children = of.children();
  for (int i = 0; i < children.length; i++) {
    found.add(value(children[i]));
  }
  return found;
}

private static Map entry(String key, Object value) {
  HashMap made = new HashMap();
  made.put(key, value);
  return made;
}

private static String text(Object value) {
  if (value == null) {
    return null;
  }
  return value instanceof byte[] ? Base64.getEncoder().encodeToString((byte[]) value) : value.toString();
}

/** The conditions with these numbers, which are separated by spaces. */
public Object some(Object conditions, String numbers) {
  List found = listed(conditions, numbers);
  return found.toArray(new Predicate[0]);
}

/** The same as filters of Spark's readers, where there are such. */
public Object filters(Object conditions, String numbers) {
  List wanted = listed(conditions, numbers);
  ArrayList found = new ArrayList();
  for (int i = 0; i < wanted.size(); i++) {
    Option filter = PredicateUtils.toV1((Predicate) wanted.get(i));
    if (filter.isDefined()) {
      found.add(filter.get());
    }
  }
  return found.toArray(new Filter[0]);
}

private static List listed(Object conditions, String numbers) {
  ArrayList found = new ArrayList();
  String[] texts = StringUtils.split(numbers);
  for (int i = 0; i < texts.length; i++) {
    found.add(((Object[]) conditions)[Integer.parseInt(texts[i])]);
  }
  return found;
}
