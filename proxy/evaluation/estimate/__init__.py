"""What somebody's own transcripts cost, and what they would have cost: before anything is installed or served."""
