"""Classes and objects of the JVM, and Python objects that it calls.

proxies.py          Python objects that Spark calls, and their errors
java_objects.py     Python's objects as Spark holds them
gateway.py          classes, collections, private fields and columns of the JVM
callback_server.py  the port by which the JVM calls Python
classic.py          classic PySpark in processes that use Spark Connect
java/               Java that is compiled in the driver
"""
