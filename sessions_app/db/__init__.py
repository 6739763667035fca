"""Tools for few and short statements. No table has its meaning here."""
