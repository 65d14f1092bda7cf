"""Spark's local files without a process for each of them.

Where Hadoop's native library is missing, which no package of PySpark has, Hadoop starts ``chmod`` for every file and
folder that it makes: a dozen per batch of a stream or table that is written, and a third of what writing them takes.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

_SOURCE = """
public class FilesAsTheyAreMade extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(
        org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission) {}
}
"""


def keep_permissions(spark: SparkSession) -> None:
    """Lets the JVM of a session leave local files with the permissions that the system gives them, which are the same.

    Spark has a compiler of Java. The file system goes to where Hadoop keeps those that it has opened.
    """
    context = spark.sparkContext
    jvm, new_array, options = context._jvm, context._gateway.new_array, context._jsc.hadoopConfiguration()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE)
    raw = compiler.getClassLoader().loadClass("FilesAsTheyAreMade").newInstance()
    files, uri = jvm.org.apache.hadoop.fs.LocalFileSystem(raw), jvm.java.net.URI("file:///")
    files.initialize(uri, options)
    known = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FileSystem").getDeclaredMethods()
    (put,) = [method for method in known if method.getName() == "addFileSystemForTesting"]
    put.setAccessible(True)
    arguments = new_array(jvm.java.lang.Object, 3)
    arguments[0], arguments[1], arguments[2] = uri, options, files
    put.invoke(None, arguments)
