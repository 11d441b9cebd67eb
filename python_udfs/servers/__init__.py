"""Connections to database servers, for what is read and what is published."""
