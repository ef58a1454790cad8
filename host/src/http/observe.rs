//! Puts each request of predict and infer, whatever becomes of it, under the eyes of the observer, and its id and its place
//! in a trace on its answer.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, State};
use axum::http::{Method, Request, Response};
use axum::middleware::Next;

use crate::metrics::Surface;
use crate::observed::{Arrival, Sealed};
use crate::serving::ServingState;
use crate::settings::ApiKind;

/// Watches a request where it is one of predict or infer.
pub(super) async fn watch(
    State(state): State<Arc<ServingState>>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let kind = (request.method() == Method::POST).then(|| ApiKind::of_path(request.uri().path()));
    if kind.flatten() != Some(ApiKind::Inference) {
        return next.run(request).await;
    }
    let seen = {
        let (matched, headers) = (request.extensions().get::<MatchedPath>(), request.headers());
        let route = || matched.map_or_else(String::new, |path| template(path.as_str()));
        state.observer.begin(&Arrival { surface: Surface::Http, route: &route, headers })
    };
    state
        .observer
        .watch(seen, next.run(request), |response, headers| {
            let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
            response.headers_mut().extend(headers);
            Sealed { status: response.status().as_u16(), bytes_out: size }
        })
        .await
}

/// A route as people write it: the router knows no verbs, so their routes end in a whole segment.
fn template(route: &str) -> String {
    let Some(base) = route.strip_suffix("{segment}") else { return route.to_owned() };
    let name = match base {
        "/v1/models/" => "{model}",
        _ if base.ends_with("/versions/") => "{version}",
        _ => "{label}",
    };
    format!("{base}{name}:predict")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_told_with_their_verbs() {
        for (route, expected) in [
            ("/v2/models/{model}/infer", "/v2/models/{model}/infer"),
            ("/v1/models/{segment}", "/v1/models/{model}:predict"),
            ("/v1/models/{model}/versions/{segment}", "/v1/models/{model}/versions/{version}:predict"),
            ("/v1/models/{model}/labels/{segment}", "/v1/models/{model}/labels/{label}:predict"),
        ] {
            assert_eq!(template(route), expected);
        }
    }
}
