"""Who a client is and what it may do: users, permissions, quotas, certificates, tokens. Knows no protocol."""
