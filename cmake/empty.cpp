// A target needs a source; this one exists for its precompiled header.
