//! Reproducible random numbers.

/// A sequence of random numbers. Its seed is `DAYFLY_SEED`, or a new one if the variable is not set.
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// Starts the sequence of this run, and prints its seed.
    #[must_use]
    pub fn new(what: &str) -> Self {
        let given = std::env::var("DAYFLY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
            u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()) << 32
        });
        println!("{what}: DAYFLY_SEED={seed}");
        Self(seed)
    }

    /// Returns an independent sequence, for a part of the run.
    #[must_use]
    pub fn part(&mut self) -> Self {
        Self(self.below(u64::MAX))
    }

    /// Returns the next number below `bound` (splitmix64).
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
