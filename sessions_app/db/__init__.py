"""Tools for few and short statements. They know no table's meaning."""
