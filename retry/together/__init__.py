"""Past chains decided anew side by side: what breakers and shared budgets would have done. Pure.

The rules themselves are in `retry/breakers.py` and `retry/shared_budgets.py`.
"""
