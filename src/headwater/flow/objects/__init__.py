"""Objects of a bucket or a folder, and the checkpoint of a job that is kept in them."""
