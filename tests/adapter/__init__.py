"""Functional tests of the adapter `sparksession`."""
