//! Signing in: by a link, or by a code that the person sends to a bot. No page signs in but by its button.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::header::{SET_COOKIE, USER_AGENT};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::form::Form;
use super::serve::{Console, blocking, failed, go, page};
use super::site::Cookie;
use super::{ChatLogin, NewLogin, Trouble, guard, pages, token};
use crate::model::console::TokenDigest;

/// A request of a browser that may have no session.
#[derive(Clone, Copy)]
pub(super) struct Unknown<'a> {
    pub(super) is_post: bool,
    pub(super) path: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) address: IpAddr,
}

/// How addresses of links begin that sign in.
const LINK: &str = "/sign-in/";

impl Unknown<'_> {
    /// Whether it is about signing in.
    pub(super) fn is_sign_in(&self) -> bool {
        match self.is_post {
            true => ["/sign-in", "/login", "/login/end"].contains(&self.path),
            false => self.path == "/login" || self.path.starts_with(LINK),
        }
    }

    /// What the browser calls itself.
    fn browser(&self) -> String {
        self.headers.get(USER_AGENT).and_then(|name| name.to_str().ok()).unwrap_or_default().to_owned()
    }
}

impl Console {
    /// The answer to a request about signing in.
    pub(super) async fn sign_in_page(self: &Arc<Self>, request: Unknown<'_>, form: Form) -> Response {
        match (request.is_post, request.path) {
            (true, "/sign-in") => self.sign_in(request, form).await,
            (true, "/login") => self.begin_login(request).await,
            (true, _) => self.end_login(request).await,
            (false, "/login") => self.show_login(request).await,
            (false, path) => self.offer_sign_in(path.trim_start_matches(LINK).to_owned()).await,
        }
    }

    /// The page for browsers without a session.
    pub(super) fn signed_out(&self, status: StatusCode) -> Response {
        page(status, pages::sign_in::signed_out(self.host.has_chat_login()))
    }

    async fn offer_sign_in(self: &Arc<Self>, code: String) -> Response {
        let console = Arc::clone(self);
        let known = code.clone();
        let user = blocking(move || Ok(console.host.of_link(&known))).await;
        match user {
            Ok(Some(user)) => page(StatusCode::OK, pages::sign_in::offer(&code, &user)),
            Ok(None) => page(StatusCode::GONE, pages::sign_in::expired()),
            Err(trouble) => failed(None, &trouble),
        }
    }

    async fn sign_in(self: &Arc<Self>, request: Unknown<'_>, form: Form) -> Response {
        let browser = request.browser();
        let console = Arc::clone(self);
        let signed = blocking(move || {
            let new = token::new_token().map_err(|error| Trouble::Failed(error.to_string()))?;
            console.host.sign_in(form.get("code"), token::digest(&new), &browser)?;
            Ok(new)
        })
        .await;
        match signed {
            Ok(new) => self.with_cookie(go("/"), Cookie::Session, Some(&new)),
            Err(Trouble::NotFound(_)) => page(StatusCode::GONE, pages::sign_in::expired()),
            Err(trouble) => failed(None, &trouble),
        }
    }

    /// Shows a code to a browser, which gets a cookie of its own for it.
    async fn begin_login(self: &Arc<Self>, request: Unknown<'_>) -> Response {
        let (console, name) = (Arc::clone(self), request.browser());
        let (before, address) = (self.browser(request), request.address);
        let begun = blocking(move || {
            let new = token::new_token().map_err(|error| Trouble::Failed(error.to_string()))?;
            let login = NewLogin { browser: token::digest(&new), before, address, name: &name };
            Ok(console.host.begin_login(login)?.then_some(new))
        })
        .await;
        match begun {
            Ok(Some(new)) => self.with_cookie(go("/login"), Cookie::Login, Some(&new)),
            Ok(None) => self.signed_out(StatusCode::FORBIDDEN),
            Err(trouble) => failed(None, &trouble),
        }
    }

    /// The code, or who sent it. Consumes nothing.
    async fn show_login(self: &Arc<Self>, request: Unknown<'_>) -> Response {
        let Some(browser) = self.browser(request) else { return self.signed_out(StatusCode::OK) };
        let console = Arc::clone(self);
        match blocking(move || Ok(console.host.login(browser))).await {
            Ok(Some(state)) => page(StatusCode::OK, pages::sign_in::login(&state)),
            Ok(None) => page(StatusCode::OK, pages::sign_in::login(&ChatLogin::Void)),
            Err(trouble) => failed(None, &trouble),
        }
    }

    async fn end_login(self: &Arc<Self>, request: Unknown<'_>) -> Response {
        let Some(browser) = self.browser(request) else { return self.signed_out(StatusCode::FORBIDDEN) };
        let (console, name) = (Arc::clone(self), request.browser());
        let signed = blocking(move || {
            let new = token::new_token().map_err(|error| Trouble::Failed(error.to_string()))?;
            console.host.end_login(browser, token::digest(&new), &name)?;
            Ok(new)
        })
        .await;
        match signed {
            Ok(new) => {
                let response = self.with_cookie(go("/"), Cookie::Session, Some(&new));
                self.with_cookie(response, Cookie::Login, None)
            }
            Err(Trouble::NotFound(_)) => page(StatusCode::GONE, pages::sign_in::login(&ChatLogin::Void)),
            Err(trouble) => failed(None, &trouble),
        }
    }

    /// The digest of what a browser has in which a person is signing in from a chat.
    fn browser(&self, request: Unknown<'_>) -> Option<TokenDigest> {
        guard::cookie(&self.site, Cookie::Login, request.headers).map(token::digest)
    }

    fn with_cookie(&self, mut response: Response, which: Cookie, token: Option<&str>) -> Response {
        if let Some(cookie) = guard::set_cookie(&self.site, which, token) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }
}
