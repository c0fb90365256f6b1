//! `cp`: copies files between the host and a container.

use container::{Place, Status};

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let [source, destination] = invocation.arguments else { return Ok(()) };
    if *source == "-" || *destination == "-" {
        return Err(failure!(
            "cp has no archives: \"{NAME} exec CONTAINER tar -c PATH\" writes one, if the image has tar"
        ));
    }
    let ((from, source), (to, destination)) = (split(source), split(destination));
    if from.is_some() == to.is_some() {
        return Err(Failure::new(
            "one of the paths must be CONTAINER:PATH, the other one of the host",
        ));
    }
    let find = |id: &str| Ok::<_, Failure>(invocation.store()?.by_beginning(id)?);
    let from = match from.map(find).transpose()? {
        None => Place::host(),
        Some(container) => {
            if container.has_layers() && container.status()? == Status::Stopped {
                // The layers are mounted for this command, and its files may have owners other than the calling user.
                container::enter_user_namespace(invocation.args, invocation.trace)?;
            }
            Place::from(&container)?
        }
    };
    let to = match to.map(find).transpose()? {
        None => Place::host(),
        Some(container) => Place::of(&container)?,
    };
    Ok(container::copy((&from, source), (&to, destination))?)
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
