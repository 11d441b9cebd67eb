"""Files on the driver's own disk, made without a process for each.

Hadoop sets a new file's permissions by its native library. That isn't part of Spark's wheel, and
without it Hadoop starts `chmod` instead: two processes for each file, which has a checksum file
beside it, and another for each folder. A commit of a small change makes some ten files, so most of
its time went there. Java can set permissions itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbt.adapters.sparksession.edges import Foreign

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS = "LocalFilesByNio"
# Everything but the one method is Hadoop's own. Spark compiles its queries by the same compiler.
SOURCE = f"""
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {CLASS} extends RawLocalFileSystem {{
    public void setPermission(Path path, FsPermission permission) throws IOException {{
        if (permission.getStickyBit()) {{
            super.setPermission(path, permission);
        }} else {{
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString())
            );
        }}
    }}
}}
"""


def set_permissions_in_java(session: SparkSession) -> None:
    """Let the driver's Java set the permissions of local files itself.

    Hadoop keeps one file system for `file:` and gives it to all that ask, Iceberg among them. Its
    place in that cache is taken by one that differs in this alone.
    """
    jvm: Foreign = session._jvm
    gateway: Foreign = session.sparkContext._gateway
    java_class, java_object = jvm.java.lang.Class, jvm.java.lang.Object

    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(SOURCE)
    compiled = compiler.getClassLoader().loadClass(CLASS)
    no_types = gateway.new_array(java_class, 0)
    files = compiled.getDeclaredConstructor(no_types).newInstance(gateway.new_array(java_object, 0))

    conf = session.sparkContext._jsc.hadoopConfiguration()
    uri = jvm.java.net.URI("file:///")
    local = jvm.org.apache.hadoop.fs.LocalFileSystem(files)
    local.initialize(uri, conf)

    names = (
        "java.net.URI",
        "org.apache.hadoop.conf.Configuration",
        "org.apache.hadoop.fs.FileSystem",
    )
    types, values = gateway.new_array(java_class, 3), gateway.new_array(java_object, 3)
    for place, (name, value) in enumerate(zip(names, (uri, conf, local), strict=True)):
        types[place], values[place] = java_class.forName(name), value
    # the one way into the cache; Hadoop has it for tests
    keep = types[2].getDeclaredMethod("addFileSystemForTesting", types)
    keep.setAccessible(True)
    keep.invoke(None, values)
