"""Who somebody is and what they may do: users, permissions, quotas, certificates, tokens. Knows no protocol."""
