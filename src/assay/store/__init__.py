"""What a run leaves behind: its folder, its session, evidence records, bundles."""
