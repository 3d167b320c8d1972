/** Whether a method is running on this thread, such as `saveAsTable` of a class whose name ends with `DataFrameWriter`. */
public boolean runs(String classNameEnd, String method) {
  StackTraceElement[] frames = Thread.currentThread().getStackTrace();
  for (int i = 0; i < frames.length; i++) {
    if (frames[i].getMethodName().equals(method) && frames[i].getClassName().endsWith(classNameEnd)) {
      return true;
    }
  }
  return false;
}
