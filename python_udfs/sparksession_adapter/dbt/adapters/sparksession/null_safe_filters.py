"""Conditions on Iceberg's tables leave out the rows of which they are null.

Where all columns of a condition are partition columns, Iceberg alone answers it, and it takes a
null for a value that differs: `a <> 1 or b = 2` gave rows in which `a` is null. Spark asks such a
condition again of each row that Iceberg gives, as `coalesce(condition, false)`. A prefix
(`a like 'x%' or b`) isn't given to Iceberg: it ends there in a Java stack where `a` is null.

The rule is one of Spark's optimizer, so it is in Java, which the compiler of Spark's own queries
compiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbt.adapters.sparksession.edges import Foreign

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# of the optimizer's batch of rules that are run until nothing changes, before Iceberg is asked
RULE = """
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

public class NullSafeFilters extends org.apache.spark.sql.catalyst.rules.Rule {
    public static class Injected extends scala.runtime.AbstractFunction1 {
        public Object apply(Object session) { return new NullSafeFilters(); }
    }

    public static class OfPlan extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object plan) {
            return plan instanceof Filter
                && ((Filter) plan).child() instanceof DataSourceV2Relation;
        }

        public Object applyOrElse(Object plan, scala.Function1 other) {
            if (!isDefinedAt(plan)) return other.apply(plan);
            Filter filter = (Filter) plan;
            Expression asked = nullSafe(filter.condition());
            return asked == filter.condition() ? plan : new Filter(asked, filter.child());
        }
    }

    public org.apache.spark.sql.catalyst.trees.TreeNode apply(
            org.apache.spark.sql.catalyst.trees.TreeNode plan) {
        return ((LogicalPlan) plan).transformDown(new OfPlan());
    }

    static Expression nullSafe(Expression condition) {
        java.util.List parts = new java.util.ArrayList();
        split(condition, parts);
        Expression safe = null;
        boolean isChanged = false;
        for (int at = 0; at < parts.size(); at++) {
            Expression part = (Expression) parts.get(at);
            boolean isPrefix = has(part, StartsWith.class);
            if (isOfNulls(part) && (isPrefix || !isAsked(parts, part))) {
                isChanged = true;
                safe = isPrefix ? safe : both(safe, part);
                part = isAsked(parts, part) ? Literal.TrueLiteral() : again(part);
            }
            safe = both(safe, part);
        }
        return isChanged ? safe : condition;
    }

    // Spark itself leaves out the nulls of a condition without an `or`
    static boolean isOfNulls(Expression part) {
        return part instanceof Or
            && part.nullable()
            && part.deterministic()
            && (has(part, Not.class) || has(part, StartsWith.class))
            && !has(part, SubqueryExpression.class);
    }

    static void split(Expression condition, java.util.List parts) {
        if (condition instanceof And) {
            split(((And) condition).left(), parts);
            split(((And) condition).right(), parts);
        } else {
            parts.add(condition);
        }
    }

    static Expression both(Expression left, Expression right) {
        return left == null ? right : new And(left, right);
    }

    static Expression again(Expression part) {
        return new Coalesce(
            new scala.collection.immutable.$colon$colon(
                part,
                new scala.collection.immutable.$colon$colon(
                    Literal.FalseLiteral(), scala.collection.immutable.Nil$.MODULE$)));
    }

    static boolean isAsked(java.util.List parts, Expression part) {
        for (int at = 0; at < parts.size(); at++) {
            if (isAgain((Expression) parts.get(at), part)) return true;
        }
        return false;
    }

    static boolean isAgain(Expression again, Expression condition) {
        return again instanceof Coalesce
            && ((Expression) again.children().apply(0)).semanticEquals(condition);
    }

    static boolean has(Expression part, Class kind) {
        if (kind.isInstance(part)) return true;
        for (int at = 0; at < part.children().size(); at++) {
            if (has((Expression) part.children().apply(at), kind)) return true;
        }
        return false;
    }
}
"""


def add_null_safe_filters(session: SparkSession) -> None:
    """Let the sessions that a Spark in this process makes from now on have the rule."""
    jvm: Foreign = session._jvm
    java: Foreign = session._jsparkSession
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.getClass().getClassLoader())
    compiler.cook(RULE)
    injected = compiler.getClassLoader().loadClass("NullSafeFilters$Injected")
    java.extensions().injectOptimizerRule(injected.newInstance())
