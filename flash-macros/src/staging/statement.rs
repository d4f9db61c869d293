//! Blocks, statements and the patterns of `let`.

use super::Stager;
use super::expression::{diverges, unparenthesised};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Block, Expr, Item, Local, Pat, Stmt, Type};

impl Stager<'_> {
    /// A block with its value.
    pub(super) fn block(&mut self, block: &Block) -> TokenStream {
        self.scope.enter();
        let statements: Vec<TokenStream> = block
            .stmts
            .iter()
            .enumerate()
            .map(|(at, statement)| self.any(statement, at + 1 == block.stmts.len()))
            .collect();
        self.scope.leave();
        quote_spanned!(block.span()=> { #(#statements)* })
    }

    /// A block whose value is `()`, such as a loop's.
    pub(super) fn unit_block(&mut self, block: &Block) -> TokenStream {
        let block = self.block(block);
        quote!({ let () = #block; })
    }

    fn any(&mut self, statement: &Stmt, last: bool) -> TokenStream {
        match statement {
            Stmt::Local(local) => self.local(local),
            Stmt::Item(item) => self.item(item),
            Stmt::Expr(expression, None) if last => self.value(expression),
            Stmt::Expr(expression, semicolon) => {
                let tokens = self.statement(expression, semicolon.is_some());
                self.with_never(tokens, last && diverges(expression))
            }
            Stmt::Macro(statement) => {
                let expression =
                    Expr::Macro(syn::ExprMacro { attrs: Vec::new(), mac: statement.mac.clone() });
                let ends = diverges(&expression);
                if last && statement.semi_token.is_none() {
                    return self.value(&expression);
                }
                let tokens = self.statement(&expression, true);
                self.with_never(tokens, last && ends)
            }
        }
    }

    /// A block that ends with `return x;` has any type.
    fn with_never(&self, tokens: TokenStream, never: bool) -> TokenStream {
        let staging = self.staging;
        let never = never.then(|| quote!(#staging::never()));
        quote!(#tokens #never)
    }

    /// An expression for what it does.
    fn statement(&mut self, expression: &Expr, semicolon: bool) -> TokenStream {
        let expression = unparenthesised(expression);
        if let Some(tokens) = self.jump(expression) {
            return tokens;
        }
        let value = self.value(expression);
        match expression {
            Expr::If(_) | Expr::Match(_) | Expr::Block(_) if !semicolon => quote!(let () = #value;),
            _ => quote!(let _ = #value;),
        }
    }

    fn item(&mut self, item: &Item) -> TokenStream {
        match item {
            Item::Const(_) | Item::Use(_) => quote!(#item),
            Item::Fn(function) => self.refuse(
                &function.sig,
                "write the function outside of this one, with `#[kernel_fn]`, or a closure",
            ),
            other => self.refuse(other, "write it outside of the function"),
        }
    }

    fn local(&mut self, local: &Local) -> TokenStream {
        let (pattern, ty) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        let Some(init) = &local.init else {
            let staging = self.staging;
            let names = self.pattern(pattern);
            let ty = ty.map(|ty| self.of(ty)).map(|ty| quote!(: #ty));
            return quote!(let #names #ty = #staging::Value::unset("v"););
        };
        if let Some((_, otherwise)) = &init.diverge {
            return match &**otherwise {
                Expr::Block(otherwise) => self.let_else(pattern, &init.expr, &otherwise.block),
                otherwise => self.refuse(otherwise, "write a block"),
            };
        }
        if let (Expr::Closure(closure), Pat::Ident(name)) = (unparenthesised(&init.expr), pattern) {
            let closure = self.closure(closure);
            let name = &name.ident;
            self.scope.add_closure(name);
            return quote!(let #name = #closure;);
        }
        // A reference stays the place that it is to.
        let init_expr = unparenthesised(&init.expr);
        let lent = matches!(init_expr, Expr::Reference(_)) || self.scope.is_lent(init_expr);
        let value = self.value(&init.expr);
        self.binding(pattern, ty, value, lent)
    }

    /// `let pattern: ty = value;`. `as_is`: the value is a place that the name stands for.
    pub(super) fn binding(
        &mut self,
        pattern: &Pat,
        ty: Option<&Type>,
        value: TokenStream,
        as_is: bool,
    ) -> TokenStream {
        let staging = self.staging;
        let ty = ty.map(|ty| self.of(ty)).map(|ty| quote!(: #ty));
        if let Pat::Slice(slice) = pattern {
            let names = self.own(slice.elems.len());
            let elements: Vec<TokenStream> = slice
                .elems
                .iter()
                .zip(&names)
                .map(|(pattern, name)| self.binding(pattern, None, quote!(#name), false))
                .collect();
            return quote_spanned!(pattern.span()=> let [#(#names),*] = #staging::elements(#value); #(#elements)*);
        }
        let hint = match pattern {
            Pat::Ident(name) => crate::definition_name(&name.ident),
            _ => "v".to_owned(),
        };
        let value = match (as_is, has_variable(pattern)) {
            (true, _) => value,
            (false, true) => quote!(#staging::Value::variable(#value, #hint)),
            (false, false) => quote!(#staging::Value::named(#value, #hint)),
        };
        if let Pat::Struct(structure) = pattern {
            let alias = format_ident!("FlashStaged{}", structure.fields.len());
            let path = &structure.path;
            let fields: Vec<TokenStream> = structure
                .fields
                .iter()
                .map(|field| {
                    let (member, pattern) = (&field.member, self.pattern(&field.pat));
                    quote!(#member: #pattern)
                })
                .collect();
            let rest = &structure.rest;
            let names = bound_names(pattern);
            return quote_spanned! {pattern.span()=>
                let (#(#names,)*) = {
                    type #alias = #staging::Of<#path>;
                    let #alias { #(#fields,)* #rest } = #value;
                    (#(#names,)*)
                };
            };
        }
        let names = self.pattern(pattern);
        if let (true, Pat::Ident(name)) = (as_is, pattern) {
            self.scope.lend(&name.ident);
        }
        quote_spanned!(pattern.span()=> let #names #ty = #value;)
    }

    /// The names of a pattern.
    pub(super) fn pattern(&mut self, pattern: &Pat) -> TokenStream {
        match pattern {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                self.scope.add(&name.ident);
                let name = &name.ident;
                quote!(#name)
            }
            Pat::Wild(_) | Pat::Rest(_) => quote!(#pattern),
            Pat::Paren(paren) => self.pattern(&paren.pat),
            // A place of a reference is the place.
            Pat::Reference(reference) => self.pattern(&reference.pat),
            Pat::Tuple(tuple) => {
                let names: Vec<TokenStream> =
                    tuple.elems.iter().map(|pattern| self.pattern(pattern)).collect();
                quote!((#(#names,)*))
            }
            Pat::Type(typed) => {
                let (names, ty) = (self.pattern(&typed.pat), self.of(&typed.ty));
                quote!(#names: #ty)
            }
            other => {
                self.refuse(other, "the patterns of `let` are names, tuples, `[a, b]` and structs; write the names of their parts");
                quote!(_)
            }
        }
    }
}

/// Whether a pattern has a `mut`.
fn has_variable(pattern: &Pat) -> bool {
    match pattern {
        Pat::Ident(name) => name.mutability.is_some(),
        Pat::Paren(paren) => has_variable(&paren.pat),
        Pat::Type(typed) => has_variable(&typed.pat),
        Pat::Tuple(tuple) => tuple.elems.iter().any(has_variable),
        Pat::Slice(slice) => slice.elems.iter().any(has_variable),
        Pat::Struct(structure) => structure.fields.iter().any(|field| has_variable(&field.pat)),
        _ => false,
    }
}

/// The names that a pattern binds.
fn bound_names(pattern: &Pat) -> Vec<&syn::Ident> {
    match pattern {
        Pat::Ident(name) => vec![&name.ident],
        Pat::Paren(paren) => bound_names(&paren.pat),
        Pat::Type(typed) => bound_names(&typed.pat),
        Pat::Tuple(tuple) => tuple.elems.iter().flat_map(bound_names).collect(),
        Pat::Struct(structure) => structure.fields.iter().flat_map(|field| bound_names(&field.pat)).collect(),
        _ => Vec::new(),
    }
}
