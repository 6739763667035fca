"""Shared retry budgets: what dispatch charges, and the sweep that counts first attempts. What holds
and releases retries stands with the chains."""
