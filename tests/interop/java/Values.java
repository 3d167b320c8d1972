import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.BinaryVector;
import org.apache.paimon.data.Blob;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.InternalVector;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.GenericVariant;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.types.VectorType;

/**
 * Paimon's internal values as JSON and back.
 *
 * <p>The form: numbers and booleans as such, NaN and infinities as text, decimals, dates, times and timestamps as
 * text (nine fraction digits, `Z` when zoned), bytes and blobs as lower case hex, maps as sorted [key, value] pairs,
 * rows as objects, variants as {"value": hex, "metadata": hex} (given as their JSON text).
 */
final class Values {

    static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final DateTimeFormatter SECONDS = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss");

    private Values() {}

    static ObjectNode rowToJson(InternalRow row, RowType type) {
        ObjectNode node = NODES.objectNode();
        List<DataField> fields = type.getFields();
        for (int i = 0; i < fields.size(); i++) {
            DataType fieldType = fields.get(i).type();
            Object value = InternalRow.createFieldGetter(fieldType, i).getFieldOrNull(row);
            node.set(fields.get(i).name(), toJson(value, fieldType));
        }
        return node;
    }

    static JsonNode toJson(Object value, DataType type) {
        if (value == null) {
            return NODES.nullNode();
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return NODES.booleanNode((Boolean) value);
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case BIGINT:
                return NODES.numberNode(((Number) value).longValue());
            case FLOAT:
            case DOUBLE:
                double number = ((Number) value).doubleValue();
                boolean plain = !Double.isNaN(number) && !Double.isInfinite(number);
                return plain ? NODES.numberNode(number) : NODES.textNode(Double.toString(number));
            case DECIMAL:
                return NODES.textNode(((Decimal) value).toBigDecimal().toPlainString());
            case CHAR:
            case VARCHAR:
                return NODES.textNode(value.toString());
            case BINARY:
            case VARBINARY:
                return NODES.textNode(hex((byte[]) value));
            case BLOB:
                return NODES.textNode(hex(((Blob) value).toData()));
            case DATE:
                return NODES.textNode(LocalDate.ofEpochDay((Integer) value).toString());
            case TIME_WITHOUT_TIME_ZONE:
                LocalTime time = LocalTime.ofNanoOfDay(((Integer) value) * 1_000_000L);
                return NODES.textNode(time.format(DateTimeFormatter.ofPattern("HH:mm:ss.SSS")));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return NODES.textNode(timestamp((Timestamp) value));
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return NODES.textNode(timestamp((Timestamp) value) + "Z");
            case VARIANT:
                Variant variant = (Variant) value;
                return NODES.objectNode().put("value", hex(variant.value())).put("metadata", hex(variant.metadata()));
            case ARRAY:
                return list((InternalArray) value, ((ArrayType) type).getElementType());
            case VECTOR:
                return list((InternalVector) value, ((VectorType) type).getElementType());
            case MAP:
                return pairs((InternalMap) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return pairs((InternalMap) value, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW:
                return rowToJson((InternalRow) value, (RowType) type);
            default:
                throw new UnsupportedOperationException("no JSON form for " + type.asSQLString());
        }
    }

    private static String timestamp(Timestamp value) {
        long millis = value.getMillisecond();
        long nanos = Math.floorMod(millis, 1000L) * 1_000_000L + value.getNanoOfMillisecond();
        LocalDateTime second = LocalDateTime.ofEpochSecond(Math.floorDiv(millis, 1000L), 0, ZoneOffset.UTC);
        return second.format(SECONDS) + String.format(".%09d", nanos);
    }

    private static ArrayNode list(InternalArray array, DataType elementType) {
        ArrayNode node = NODES.arrayNode();
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(elementType);
        for (int i = 0; i < array.size(); i++) {
            node.add(toJson(getter.getElementOrNull(array, i), elementType));
        }
        return node;
    }

    private static ArrayNode pairs(InternalMap map, DataType keyType, DataType valueType) {
        ArrayNode keys = list(map.keyArray(), keyType);
        ArrayNode values = list(map.valueArray(), valueType);
        List<ArrayNode> pairs = new ArrayList<>();
        for (int i = 0; i < map.size(); i++) {
            pairs.add(NODES.arrayNode().add(keys.get(i)).add(values.get(i)));
        }
        pairs.sort((a, b) -> a.toString().compareTo(b.toString()));
        return NODES.arrayNode().addAll(pairs);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    static GenericRow rowFromJson(JsonNode values, RowType type) {
        if (values.size() != type.getFieldCount()) {
            throw new IllegalArgumentException(
                    values.size() + " values for " + type.getFieldCount() + " fields: " + values);
        }
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            row.setField(i, fromJson(values.get(i), type.getTypeAt(i)));
        }
        return row;
    }

    static Object fromJson(JsonNode node, DataType type) {
        if (node == null || node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return node.asBoolean();
            case TINYINT:
                return (byte) node.asInt();
            case SMALLINT:
                return (short) node.asInt();
            case INTEGER:
                return node.asInt();
            case BIGINT:
                return node.asLong();
            case FLOAT:
                return (float) number(node);
            case DOUBLE:
                return number(node);
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(node.asText()), decimal.getPrecision(), decimal.getScale());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(node.asText());
            case BINARY:
            case VARBINARY:
                return HexFormat.of().parseHex(node.asText());
            case BLOB:
                return Blob.fromData(HexFormat.of().parseHex(node.asText()));
            case DATE:
                return (int) LocalDate.parse(node.asText()).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE:
                return (int) (LocalTime.parse(node.asText()).toNanoOfDay() / 1_000_000L);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return Timestamp.fromLocalDateTime(LocalDateTime.parse(node.asText()));
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromInstant(Instant.parse(node.asText()));
            case VARIANT:
                return GenericVariant.fromJson(node.asText());
            case ARRAY:
                return array(node, ((ArrayType) type).getElementType());
            case VECTOR:
                DataType element = ((VectorType) type).getElementType();
                return BinaryVector.fromInternalArray(array(node, element), element);
            case MAP:
                return map(node, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return map(node, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW:
                return rowFromJson(node, (RowType) type);
            default:
                throw new UnsupportedOperationException("no value of " + type.asSQLString());
        }
    }

    private static double number(JsonNode node) {
        return node.isTextual() ? Double.parseDouble(node.asText()) : node.asDouble();
    }

    private static GenericArray array(JsonNode node, DataType elementType) {
        Object[] elements = new Object[node.size()];
        for (int i = 0; i < elements.length; i++) {
            elements[i] = fromJson(node.get(i), elementType);
        }
        return new GenericArray(elements);
    }

    private static GenericMap map(JsonNode pairs, DataType keyType, DataType valueType) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : pairs) {
            map.put(fromJson(pair.get(0), keyType), fromJson(pair.get(1), valueType));
        }
        return new GenericMap(map);
    }

    static RowKind kind(String text) {
        for (RowKind kind : RowKind.values()) {
            if (kind.shortString().equals(text)) {
                return kind;
            }
        }
        throw new IllegalArgumentException("no row kind " + text);
    }

    static Map<String, String> strings(JsonNode node) {
        Map<String, String> map = new LinkedHashMap<>();
        if (node != null && !node.isNull()) {
            node.fields().forEachRemaining(e -> map.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
        }
        return map;
    }

    static List<String> texts(JsonNode node) {
        List<String> list = new ArrayList<>();
        if (node != null && !node.isNull()) {
            node.forEach(item -> list.add(item.asText()));
        }
        return list;
    }
}
