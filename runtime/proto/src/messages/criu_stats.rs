//! criu's statistics of a restore, in the file `stats-restore` of its work directory: stats.proto of CRIU 4.2.

message! {
    /// `stats_entry`.
    pub struct Statistics {
        /// The statistics of the restore, if the file is about a restore.
        2 => restore: Option<RestoreStatistics>,
    }

    /// `restore_stats_entry`.
    pub struct RestoreStatistics {
        /// The time in µs of the whole restore.
        4 => restore_time: u32,
        /// The number of pages read from images.
        5 => pages_restored: u64,
    }
}
