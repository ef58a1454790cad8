//! A port's routes: the router, and beside it the list of what it was made of, so that what is served and what
//! `openapi.json` describes can be compared. [`Routes`] is the only way in which routes come about.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{get, post};

use crate::serving::ServingState;

/// Routes, and what answers them.
#[derive(Default)]
pub struct Routes {
    router: Router<Arc<ServingState>>,
    list: Vec<(Method, &'static str)>,
}

impl Routes {
    /// The same, and one more that is read; axum answers HEAD on it, too.
    ///
    /// # Panics
    /// Where the path is no pattern of axum's, or is there for this method already.
    #[must_use]
    pub fn get<H, T>(mut self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<ServingState>>,
        T: 'static,
    {
        self.router = self.router.route(path, get(handler));
        self.list.push((Method::GET, path));
        self
    }

    /// The same, and one more that takes a body.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[must_use]
    pub fn post<H, T>(mut self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<ServingState>>,
        T: 'static,
    {
        self.router = self.router.route(path, post(handler));
        self.list.push((Method::POST, path));
        self
    }

    /// These and others.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        self.router = self.router.merge(others.router);
        self.list.extend(others.list);
        self
    }

    /// Every method and path, as axum writes them.
    #[must_use]
    pub fn list(&self) -> &[(Method, &'static str)] {
        &self.list
    }

    /// What answers them.
    pub fn into_router(self) -> Router<Arc<ServingState>> {
        self.router
    }
}
