//! Reproducible random numbers: the same seed draws the same configuration on every machine.

/// A sequence of random numbers (splitmix64), with a budget of oddities: what usually keeps a container from starting.
/// Two of them in one configuration would tell only which one a runtime meets first.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
    oddities: usize,
}

impl Random {
    /// Returns the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Self {
            state: seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x6461_7966_6c79,
            oddities: 0,
        };
        random.oddities = random.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 1, 2]);
        random
    }

    /// Returns the next number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// Returns true in `percent` of 100 calls.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns true in `percent` of 100 calls, as long as the seed has oddities left.
    pub fn odd(&mut self, percent: usize) -> bool {
        let is_odd = self.oddities > 0 && self.chance(percent);
        self.oddities -= usize::from(is_odd);
        is_odd
    }

    /// Returns one of `items`.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns each of `items` with a probability of `percent`.
    pub fn some<T: Copy>(&mut self, items: &[T], percent: usize) -> Vec<T> {
        items.iter().copied().filter(|_| self.chance(percent)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_is_a_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..20).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|number| *number < 1000));
    }
}
