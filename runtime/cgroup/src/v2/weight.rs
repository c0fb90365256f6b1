//! Converts values of v1 settings to values of v2 settings, and back.

/// Converts cpu.shares (2 to 262144, default 1024) to cpu.weight (1 to 10000, default 100).
///
/// Uses the same function as current runc and crun: a quadratic function of log₂(shares) that maps the minimum, the
/// default and the maximum of one setting to those of the other. The former linear function converted the default to a
/// weight of only 39. 0 means not specified.
pub fn cpu_weight(shares: u64) -> Option<u64> {
    match shares {
        0 => None,
        1..=2 => Some(1),
        262_144.. => Some(10_000),
        _ => {
            let log = libm::log2(shares as f64);
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "1 to 10000"
            )]
            Some(libm::ceil(libm::pow(10.0, exponent)) as u64)
        }
    }
}

/// Converts blkio.weight (10 to 1000) to io.weight (1 to 10000), linearly. 0 means not specified.
pub fn io_weight(weight: u16) -> Option<u64> {
    let above = u64::from(weight).saturating_sub(10);
    (weight != 0).then_some(1 + above * 9999 / 990)
}

/// Converts cpu.weight to cpu.shares: returns the largest number of shares that [`cpu_weight`] converts to at most this
/// weight, so that converting back gives the same weight.
pub fn cpu_shares(weight: u64) -> u64 {
    let (mut low, mut high) = (2_u64, 262_144);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if cpu_weight(middle).is_some_and(|other| other <= weight) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Converts io.weight (1 to 10000) to blkio.weight (10 to 1000), linearly.
pub fn blkio_weight(weight: u64) -> u64 {
    10 + (weight.clamp(1, 10_000) - 1) * 990 / 9999
}

/// Returns the value for memory.swap.max. On v1, the limit `swap` applies to memory and swap together.
///
/// `None` means that the file must stay unchanged; -1 means unlimited. `memory` is the memory limit, or 0 if there is
/// none.
///
/// # Errors
/// The reason why the values are invalid, with the same text as in runc.
pub fn swap(swap: i64, memory: i64) -> Result<Option<i64>, &'static str> {
    match (swap, memory) {
        // If memory is unlimited and no swap value is specified, v1 would also allow unlimited swap.
        (0, -1) => Ok(Some(-1)),
        (0, _) => Ok(None),
        (-1, _) => Ok(Some(-1)),
        (_, -1) => Ok(Some(swap)),
        (_, 0) => Err("unable to set swap limit without memory limit"),
        (_, ..0) => Err("invalid memory value"),
        _ if swap < memory => Err("memory+swap limit should be >= memory limit"),
        _ => Ok(Some(swap - memory)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let known = [(0, None), (1, Some(1)), (2, Some(1)), (3, Some(2)), (10, Some(4))];
        for (shares, weight) in known {
            assert_eq!(cpu_weight(shares), weight, "{shares}");
        }
        let known = [(512, 59), (1024, 100), (2048, 174), (262_143, 10_000), (u64::MAX, 10_000)];
        for (shares, weight) in known {
            assert_eq!(cpu_weight(shares), Some(weight), "{shares}");
        }
        // The expected checksum, over the whole range, was computed with runc 1.5.1.
        let mix =
            |sum: u64, shares| sum.wrapping_mul(31).wrapping_add(cpu_weight(shares).unwrap_or(0));
        assert_eq!((0..=262_200).fold(0, mix), 1_000_905_258_565_708_117);
        assert!((2..262_200).all(|shares| cpu_weight(shares) <= cpu_weight(shares + 1)));
    }

    #[test]
    fn io_weights() {
        assert_eq!(io_weight(0), None);
        assert_eq!(io_weight(1), Some(1));
        assert_eq!(io_weight(10), Some(1));
        assert_eq!(io_weight(500), Some(4950));
        assert_eq!(io_weight(1000), Some(10_000));
    }

    #[test]
    fn weights_of_v2_come_back() {
        let known = [(1, 2), (59, 512), (100, 1024), (10_000, 262_144), (u64::MAX, 262_144)];
        for (weight, shares) in known {
            let got = cpu_shares(weight);
            assert!(got >= shares && got < shares + shares / 32 + 2, "{weight}: {got}");
        }
        assert_eq!(cpu_shares(100), 1024);
        for weight in 1..10_000 {
            assert!(cpu_weight(cpu_shares(weight)).unwrap() <= weight);
            assert!(cpu_weight(cpu_shares(weight) + 1).unwrap() > weight);
        }
        assert_eq!((blkio_weight(1), blkio_weight(4950), blkio_weight(10_000)), (10, 500, 1000));
        assert_eq!(blkio_weight(0), 10);
    }

    #[test]
    fn swap_is_the_rest() {
        assert_eq!(swap(300, 100), Ok(Some(200)));
        assert_eq!(swap(100, 100), Ok(Some(0)));
        assert_eq!(swap(0, 100), Ok(None));
        assert_eq!(swap(0, 0), Ok(None));
        assert_eq!(swap(0, -1), Ok(Some(-1)));
        assert_eq!(swap(-1, 100), Ok(Some(-1)));
        assert_eq!(swap(300, -1), Ok(Some(300)));
        assert_eq!(swap(300, 0), Err("unable to set swap limit without memory limit"));
        assert_eq!(swap(50, 100), Err("memory+swap limit should be >= memory limit"));
        assert!(swap(i64::MIN, i64::MAX).is_err());
        assert!(swap(5, -2).is_err());
    }
}
