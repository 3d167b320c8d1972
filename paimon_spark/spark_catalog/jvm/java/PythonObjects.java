import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.Socket;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import py4j.CallbackClient;
import py4j.ClientServerConnection;
import py4j.reflection.PythonProxyHandler;

/**
 * A Java object for a Python object that implements interfaces of Java. `key`: equal objects have equal keys.
 * `constants`: methods whose first result holds, separated by spaces; those behind a `!` return an empty array.
 */
public Object object(Object python, String key, String constants) {
  return Proxy.newProxyInstance(python.getClass().getClassLoader(),
      python.getClass().getInterfaces(), new Constants(python, key, constants));
}

public static class Constants implements InvocationHandler {
  final Object python;
  final String key;
  private final Set names;
  private final Map found = new ConcurrentHashMap();

  Constants(Object python, String key, String constants) {
    this.python = python;
    this.key = key;
    this.names = new HashSet(Arrays.asList(constants.split(" ")));
  }

  public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
    String name = method.getName();
    if (name.equals("equals") && arguments.length == 1) {
      return Boolean.valueOf(isEqual(arguments[0]));
    }
    if (arguments != null && arguments.length > 0) {
      return call(method, arguments);
    }
    if (name.equals("hashCode")) {
      return Integer.valueOf(key.hashCode());
    }
    if (names.contains("!" + name)) {
      return Array.newInstance(method.getReturnType().getComponentType(), 0);
    }
    if (!names.contains(name)) {
      return call(method, arguments);
    }
    Optional known = (Optional) found.get(name);
    if (known == null) {
      known = Optional.ofNullable(call(method, arguments));
      found.put(name, known);
    }
    return known.orElse(null);
  }

  private boolean isEqual(Object other) {
    if (other == null || !Proxy.isProxyClass(other.getClass())) {
      return false;
    }
    Object handler = Proxy.getInvocationHandler(other);
    return handler instanceof Constants && ((Constants) handler).key.equals(key);
  }

  private Object call(Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(python, arguments);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }
}

/** The number by which py4j knows the Python object behind a Java object; null if there is none. */
public String number(Object of) throws Exception {
  if (of == null || !Proxy.isProxyClass(of.getClass())) {
    return null;
  }
  Object handler = Proxy.getInvocationHandler(of);
  if (handler instanceof Constants) {
    return number(((Constants) handler).python);
  }
  if (!(handler instanceof PythonProxyHandler)) {
    return null;
  }
  Field id = PythonProxyHandler.class.getDeclaredField("id");
  id.setAccessible(true);
  return (String) id.get(handler);
}

/** Closes the connections with these ports, of threads that have ended. */
public void close(Object client, String ports) throws Exception {
  Set wanted = new HashSet(Arrays.asList(ports.split(" ")));
  Lock lock = (Lock) field(client, "lock");
  lock.lock();
  try {
    Object[] connections = ((Deque) field(client, "connections")).toArray();
    for (int i = 0; i < connections.length; i++) {
      if (connections[i] instanceof ClientServerConnection) {
        ClientServerConnection connection = (ClientServerConnection) connections[i];
        Socket socket = connection.getSocket();
        if (connection.isInitiatedFromClient() && socket != null
            && wanted.contains(String.valueOf(socket.getLocalPort()))) {
          ((Deque) field(client, "connections")).remove(connection);
          connection.shutdown();
        }
      }
    }
  } finally {
    lock.unlock();
  }
}

private static Object field(Object of, String name) throws Exception {
  Field found = CallbackClient.class.getDeclaredField(name);
  found.setAccessible(true);
  return found.get(of);
}
