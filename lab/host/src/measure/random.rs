//! Reproducible random numbers: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators").

/// A pseudorandom number generator.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below `bound`. The number is the high half of a product; its bias is negligible.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.number()) * bound as u128) >> 64) as usize
    }

    /// Returns a uniformly distributed number in [0, 1).
    pub fn share(&mut self) -> f64 {
        // The significand of a float has 53 bits.
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an exponentially distributed number with mean 1, such as the time between events of a Poisson process.
    pub fn gap(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_algorithm() {
        // The output of the authors' own program (splitmix64.c) for the seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.number(), 6_457_827_717_110_365_317);
        assert_eq!(random.number(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn shares_and_gaps_have_their_means() {
        let mut random = Random::new(1);
        let shares: Vec<f64> = (0..10_000).map(|_| random.share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
        assert!((mean(&shares) - 0.5).abs() < 0.02);
        let gaps: Vec<f64> = (0..10_000).map(|_| random.gap()).collect();
        assert!(gaps.iter().all(|gap| *gap >= 0.0) && (mean(&gaps) - 1.0).abs() < 0.05);
    }
}
