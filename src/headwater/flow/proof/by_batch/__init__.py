"""What depends on which rows came in one batch, as plain queries over rows with their batches."""
