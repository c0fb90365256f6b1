//! `cp`: copies files between the host and a running container.

use container::Place;

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let [source, destination] = invocation.arguments else { return Ok(()) };
    if *source == "-" || *destination == "-" {
        return Err(failure!(
            "cp has no archives: \"{NAME} exec CONTAINER tar -c PATH\" writes one, if the image has tar"
        ));
    }
    let place = |id: Option<&str>| match id {
        None => Ok(Place::host()),
        Some(id) => Ok::<_, Failure>(Place::of(&invocation.store()?.by_beginning(id)?)?),
    };
    let ((from, source), (to, destination)) = (split(source), split(destination));
    if from.is_some() == to.is_some() {
        return Err(Failure::new(
            "one of the paths must be CONTAINER:PATH, the other one of the host",
        ));
    }
    Ok(container::copy((&place(from)?, source), (&place(to)?, destination))?)
}

/// Splits `CONTAINER:PATH`. A path of the host that contains a colon begins with `/` or `./`.
fn split(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((id, path)) if !id.is_empty() && !id.contains('/') => (Some(id), path),
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(split("web:/etc"), (Some("web"), "/etc"));
        assert_eq!(split("web:etc"), (Some("web"), "etc"));
        assert_eq!(split("./a:b"), (None, "./a:b"));
        assert_eq!(split("/a:b"), (None, "/a:b"));
        assert_eq!(split("a"), (None, "a"));
    }
}
