"""What is stored, judged by a policy."""
