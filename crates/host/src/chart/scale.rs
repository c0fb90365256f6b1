//! Round numbers for axes.

/// A round step (1, 2 or 5 times a power of ten) that is taken at most `most` times up to `highest`.
pub fn step(highest: f64, most: u32) -> f64 {
    let rough = highest / f64::from(most);
    if !rough.is_finite() || rough <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().map(|times| times * power);
    round.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power)
}

/// A value on an axis of such steps: with thousands as k and M, with as many decimals as the step has.
pub fn label(value: f64, step: f64) -> String {
    let (value, step, unit) = match value.abs() {
        large if large >= 1e6 => (value / 1e6, step / 1e6, " M"),
        large if large >= 1e4 => (value / 1e3, step / 1e3, " k"),
        _ => (value, step, ""),
    };
    let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    let short =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_steps() {
        assert_eq!(step(6.0, 6), 1.0);
        assert_eq!(step(100.0, 6), 20.0);
        assert_eq!(step(0.7, 6), 0.2);
        assert_eq!(step(0.0, 6), 1.0);
        assert_eq!(step(f64::NAN, 6), 1.0);
    }

    #[test]
    fn labels() {
        assert_eq!(label(20.0, 20.0), "20");
        assert_eq!(label(0.4, 0.2), "0.4");
        assert_eq!(label(20_000.0, 5000.0), "20 k");
        assert_eq!(label(2_500_000.0, 500_000.0), "2.5 M");
    }
}
