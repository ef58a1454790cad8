"""Short texts in many languages, written for the file type corpus. File name -> text."""

TEXTS = {
    "stack.c": """\
#include <stdio.h>
#include <stdlib.h>

typedef struct stack {
    size_t count, room;
    int *items;
} stack;

static int push(stack *s, int item) {
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 8;
        int *grown = realloc(s->items, room * sizeof *grown);
        if (grown == NULL) return -1;
        s->items = grown;
        s->room = room;
    }
    s->items[s->count++] = item;
    return 0;
}

int main(void) {
    stack s = {0};
    for (int i = 0; i < 20; i++) push(&s, i * i);
    while (s.count > 0) printf("%d\\n", s.items[--s.count]);
    free(s.items);
    return EXIT_SUCCESS;
}
""",
    "queue.cpp": """\
#include <iostream>
#include <memory>
#include <queue>
#include <string>
#include <vector>

namespace work {
template <typename T>
class Bounded {
public:
    explicit Bounded(std::size_t limit) : limit_(limit) {}
    bool push(T item) {
        if (items_.size() >= limit_) return false;
        items_.push(std::move(item));
        return true;
    }
    std::size_t size() const noexcept { return items_.size(); }

private:
    std::size_t limit_;
    std::queue<T> items_;
};
}  // namespace work

int main() {
    auto queue = std::make_unique<work::Bounded<std::string>>(2);
    for (const auto& word : std::vector<std::string>{"one", "two", "three"}) {
        std::cout << word << ": " << std::boolalpha << queue->push(word) << std::endl;
    }
}
""",
    "Account.java": """\
package example.bank;

import java.util.ArrayList;
import java.util.List;

public final class Account {
    private final String owner;
    private final List<Long> bookings = new ArrayList<>();

    public Account(String owner) {
        this.owner = owner;
    }

    public void book(long cents) {
        if (balance() + cents < 0) {
            throw new IllegalArgumentException("not enough money for " + owner);
        }
        bookings.add(cents);
    }

    public long balance() {
        return bookings.stream().mapToLong(Long::longValue).sum();
    }

    public static void main(String[] args) {
        Account account = new Account("Ada");
        account.book(1250);
        System.out.println(account.balance());
    }
}
""",
    "cart.js": """\
'use strict';

const prices = new Map([['apple', 40], ['bread', 250], ['cheese', 480]]);

class Cart {
  constructor() {
    this.lines = [];
  }

  add(name, count = 1) {
    if (!prices.has(name)) throw new Error(`no such thing: ${name}`);
    this.lines.push({ name, count });
    return this;
  }

  total() {
    return this.lines.reduce((sum, { name, count }) => sum + prices.get(name) * count, 0);
  }
}

document.querySelector('#buy').addEventListener('click', async (event) => {
  event.preventDefault();
  const cart = new Cart().add('apple', 3).add('bread');
  const answer = await fetch('/orders', { method: 'POST', body: JSON.stringify(cart.lines) });
  console.log(cart.total(), answer.status);
});

module.exports = { Cart };
""",
    "shapes.ts": """\
export interface Shape {
  readonly name: string;
  area(): number;
}

export class Circle implements Shape {
  readonly name: string = 'circle';
  constructor(private readonly radius: number) {}
  area(): number {
    return Math.PI * this.radius ** 2;
  }
}

type Sized<T extends Shape> = { shape: T; size: number };

export function bySize<T extends Shape>(shapes: readonly T[]): Sized<T>[] {
  return shapes
    .map((shape): Sized<T> => ({ shape, size: shape.area() }))
    .sort((a, b) => a.size - b.size);
}

const shapes: Shape[] = [new Circle(2), new Circle(1)];
for (const { shape, size } of bySize(shapes)) {
  console.log(`${shape.name}: ${size.toFixed(2)}`);
}
""",
    "page.html": """\
<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>Opening hours</title>
  <link rel="stylesheet" href="style.css">
</head>
<body>
  <h1>Opening hours</h1>
  <table>
    <tr><th>Day</th><th>From</th><th>To</th></tr>
    <tr><td>Monday</td><td>9:00</td><td>17:00</td></tr>
    <tr><td>Tuesday</td><td>9:00</td><td>19:00</td></tr>
  </table>
  <p>Ring the bell at <a href="/contact">the side door</a> after five.</p>
  <script>document.body.classList.add('ready');</script>
</body>
</html>
""",
    "style.css": """\
:root {
  --accent: #336699;
  --space: 0.75rem;
}

body {
  margin: 0 auto;
  max-width: 60ch;
  font-family: "Source Serif", Georgia, serif;
  line-height: 1.5;
}

h1, h2 { color: var(--accent); }

nav > ul li:hover {
  background: linear-gradient(to right, #fff, #eee);
  padding: var(--space) calc(2 * var(--space));
}

@media (max-width: 40em) {
  nav { display: none; }
  .card { grid-template-columns: 1fr; }
}
""",
    "catalog.xml": """\
<?xml version="1.0" encoding="UTF-8"?>
<catalog xmlns="urn:example:catalog" version="2">
  <book id="b1">
    <title>Bridges and their builders</title>
    <author>M. Stone</author>
    <price currency="EUR">24.50</price>
  </book>
  <book id="b2">
    <title>Tides</title>
    <author>L. Marsh</author>
    <price currency="EUR">18.00</price>
    <!-- second edition -->
  </book>
</catalog>
""",
    "sun.svg": """\
<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="120" height="120" viewBox="0 0 120 120">
  <rect width="120" height="120" fill="#e8f4ff"/>
  <circle cx="60" cy="60" r="25" fill="#ffcc33" stroke="#cc9900" stroke-width="3"/>
  <g stroke="#cc9900" stroke-width="4">
    <path d="M60 10 L60 28"/><path d="M60 92 L60 110"/>
    <path d="M10 60 L28 60"/><path d="M92 60 L110 60"/>
  </g>
</svg>
""",
    "order.json": """\
{
  "id": 4711,
  "customer": {"name": "Grace", "city": "Bergen"},
  "lines": [
    {"article": "rope", "count": 2, "price": 12.5},
    {"article": "anchor", "count": 1, "price": 180}
  ],
  "paid": false,
  "note": null
}
""",
    "events.jsonl": """\
{"time": "2026-01-05T08:00:01Z", "level": "info", "event": "start", "pid": 812}
{"time": "2026-01-05T08:00:02Z", "level": "info", "event": "listen", "port": 8000}
{"time": "2026-01-05T08:03:44Z", "level": "warn", "event": "slow", "path": "/v1/score", "ms": 812}
{"time": "2026-01-05T08:09:10Z", "level": "info", "event": "stop", "pid": 812}
""",
    "deploy.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: scorer
  labels:
    app: scorer
spec:
  replicas: 2
  selector:
    matchLabels:
      app: scorer
  template:
    metadata:
      labels:
        app: scorer
    spec:
      containers:
        - name: scorer
          image: "example/scorer:1.4"
          ports:
            - containerPort: 8000
          resources:
            limits: {cpu: "2", memory: 512Mi}
""",
    "settings.ini": """\
; how the station reports
[station]
name = North pier
interval_seconds = 30
enabled = true

[upload]
host = weather.example
port = 8443
retry = 5

[log]
level = info
file = /var/log/station.log
""",
    "people.csv": "id,name,city,born,score\n"
    + "".join(f"{i},Person {i},{city},{1950 + i},{i * 7 % 100 / 10}\n" for i, city in enumerate(["Oslo", "Turin", "Lyon", "Gent"] * 6)),
    "readings.tsv": "time\tsensor\ttemperature\thumidity\n"
    + "".join(f"2026-02-0{1 + i % 9}T{i % 24:02}:00\ts{i % 3}\t{12 + i % 7}.{i % 10}\t{40 + i}\n" for i in range(24)),
    "guide.md": """\
# Growing tomatoes on a balcony

A short guide for people with **little room** and *some sun*.

## What you need

- a pot of at least 20 litres
- soil with compost
- a stick, about 1.5 m long

## Steps

1. Plant after the last frost.
2. Water in the morning, `1 l` per plant.
3. Pinch out side shoots.

| week | what happens |
|------|--------------|
| 1    | roots        |
| 6    | flowers      |

> Patience is the only fertiliser that never runs out.

See [the calendar](calendar.md) for more.
""",
    "manual.rst": """\
==================
The ferry timetable
==================

.. contents:: Table of contents
   :depth: 2

Leaving
=======

The first boat leaves at :time:`06:10`. See also :ref:`returning`.

.. note::

   There is no boat on the first of January.

.. code-block:: python

   for boat in timetable:
       print(boat.leaves_at)

.. _returning:

Returning
=========

* every hour until noon
* every two hours afterwards

.. image:: harbour.png
   :alt: the harbour
""",
    "paper.tex": """\
\\documentclass[a4paper]{article}
\\usepackage{amsmath}
\\usepackage{graphicx}
\\title{On the length of queues}
\\author{A. Reader}
\\begin{document}
\\maketitle
\\section{Introduction}
Let $\\lambda$ be the arrival rate and $W$ the mean wait. Then
\\begin{equation}
  L = \\lambda W, \\qquad \\rho = \\frac{\\lambda}{\\mu} < 1 .
\\end{equation}
\\begin{itemize}
  \\item Short queues are short waits.
  \\item See Figure~\\ref{fig:queue} for the rest.
\\end{itemize}
\\begin{figure}\\centering\\includegraphics{queue}\\caption{A queue.}\\label{fig:queue}\\end{figure}
\\end{document}
""",
    "backup.sh": """\
#!/bin/sh
set -eu

target="${1:-/srv/backup}"
stamp=$(date +%Y%m%d)

if [ ! -d "$target" ]; then
    echo "no folder: $target" >&2
    exit 1
fi

for folder in /etc /home; do
    name=$(basename "$folder")
    tar -czf "$target/$name-$stamp.tar.gz" "$folder"
done

find "$target" -name '*.tar.gz' -mtime +30 -delete
echo "done: $(du -sh "$target" | cut -f1)"
""",
    "clean.bat": """\
@echo off
setlocal enabledelayedexpansion
set FOLDER=%~1
if "%FOLDER%"=="" set FOLDER=%TEMP%
echo Cleaning %FOLDER%
for %%F in ("%FOLDER%\\*.tmp") do (
    echo deleting %%F
    del /q "%%F"
)
if errorlevel 1 goto failed
echo Done.
exit /b 0
:failed
echo Something could not be deleted.
pause
exit /b 1
""",
    "report.ps1": """\
param(
    [Parameter(Mandatory = $true)][string]$Path,
    [int]$Top = 10
)

function Get-LargeFile {
    param([string]$Folder)
    Get-ChildItem -Path $Folder -Recurse -File |
        Sort-Object -Property Length -Descending |
        Select-Object -First $Top -Property FullName, Length
}

$files = Get-LargeFile -Folder $Path
foreach ($file in $files) {
    Write-Host ("{0,12:N0} {1}" -f $file.Length, $file.FullName)
}
if ($files.Count -eq 0) { Write-Warning "No files in $Path" }
""",
    "primes.py": """\
import argparse
from dataclasses import dataclass


@dataclass
class Sieve:
    limit: int

    def primes(self):
        marks = bytearray([1]) * (self.limit + 1)
        for n in range(2, self.limit + 1):
            if marks[n]:
                yield n
                marks[n * n :: n] = bytes(len(marks[n * n :: n]))


def main():
    parser = argparse.ArgumentParser(description="Print primes.")
    parser.add_argument("limit", type=int)
    for prime in Sieve(parser.parse_args().limit).primes():
        print(prime)


if __name__ == "__main__":
    main()
""",
    "library.rb": """\
require 'set'

module Library
  class Shelf
    attr_reader :books

    def initialize(books = [])
      @books = books.to_set
    end

    def lend(title)
      raise ArgumentError, "no such book: #{title}" unless @books.include?(title)
      @books.delete(title)
      self
    end

    def each(&block)
      @books.sort.each(&block)
    end
  end
end

shelf = Library::Shelf.new(['Tides', 'Bridges'])
shelf.lend('Tides').each { |title| puts title }
puts shelf.books.map(&:upcase).join(', ') if shelf.books.any?
""",
    "count.pl": """\
#!/usr/bin/perl
use strict;
use warnings;

my %count;
while (my $line = <STDIN>) {
    chomp $line;
    next if $line =~ /^\\s*#/;
    foreach my $word (split /\\W+/, lc $line) {
        $count{$word}++ if length $word;
    }
}

foreach my $word (sort { $count{$b} <=> $count{$a} } keys %count) {
    printf "%-20s %d\\n", $word, $count{$word};
}
""",
    "guestbook.php": """\
<?php
declare(strict_types=1);

namespace Guestbook;

final class Entry
{
    public function __construct(private string $name, private string $text) {}

    public function html(): string
    {
        return '<p><b>' . htmlspecialchars($this->name) . '</b>: ' . htmlspecialchars($this->text) . '</p>';
    }
}

$entries = [];
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    $entries[] = new Entry($_POST['name'] ?? 'nobody', $_POST['text'] ?? '');
}
foreach ($entries as $entry) {
    echo $entry->html(), PHP_EOL;
}
?>
""",
    "ring.lua": """\
local Ring = {}
Ring.__index = Ring

function Ring.new(size)
  return setmetatable({ size = size, items = {}, next = 1 }, Ring)
end

function Ring:push(item)
  self.items[self.next] = item
  self.next = self.next % self.size + 1
end

function Ring:each()
  local i = 0
  return function()
    i = i + 1
    if i <= #self.items then return self.items[i] end
  end
end

local ring = Ring.new(3)
for n = 1, 5 do ring:push(n * n) end
for item in ring:each() do print(item) end
return Ring
""",
    "server.go": """\
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"sync"
)

type counter struct {
	mu    sync.Mutex
	visit map[string]int
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.visit[r.URL.Path]++
	if err := json.NewEncoder(w).Encode(c.visit); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func main() {
	c := &counter{visit: make(map[string]int)}
	log.Fatal(http.ListenAndServe(":8080", c))
}
""",
    "Greeter.swift": """\
import Foundation

protocol Greeter {
    func greet(_ name: String) -> String
}

struct Polite: Greeter {
    let time: Date

    func greet(_ name: String) -> String {
        let hour = Calendar.current.component(.hour, from: time)
        guard hour < 12 else { return "Good day, \\(name)" }
        return "Good morning, \\(name)"
    }
}

let greeter: Greeter = Polite(time: Date())
for name in ["Ada", "Grace"].sorted() {
    print(greeter.greet(name))
}
""",
    "Route.kt": """\
package example.routes

import kotlin.math.sqrt

data class Stop(val name: String, val x: Double, val y: Double)

class Route(private val stops: List<Stop>) {
    val length: Double
        get() = stops.zipWithNext { a, b -> a.distanceTo(b) }.sum()

    private fun Stop.distanceTo(other: Stop): Double {
        val dx = x - other.x
        val dy = y - other.y
        return sqrt(dx * dx + dy * dy)
    }
}

fun main() {
    val route = Route(listOf(Stop("Harbour", 0.0, 0.0), Stop("Market", 3.0, 4.0)))
    println("The route is ${route.length} km long")
    when {
        route.length > 10 -> println("long")
        else -> println("short")
    }
}
""",
    "Tree.scala": """\
package example

sealed trait Tree[+A]
case object Leaf extends Tree[Nothing]
final case class Node[A](left: Tree[A], value: A, right: Tree[A]) extends Tree[A]

object Tree {
  def insert[A](tree: Tree[A], value: A)(implicit ord: Ordering[A]): Tree[A] = tree match {
    case Leaf => Node(Leaf, value, Leaf)
    case Node(l, v, r) if ord.lt(value, v) => Node(insert(l, value), v, r)
    case Node(l, v, r) => Node(l, v, insert(r, value))
  }

  def main(args: Array[String]): Unit = {
    val tree = List(3, 1, 2).foldLeft[Tree[Int]](Leaf)((t, n) => insert(t, n))
    println(s"built $tree")
  }
}
""",
    "Parser.hs": """\
module Parser (Expr (..), eval, simplify) where

import Data.Char (isDigit)
import qualified Data.Map as Map

data Expr
  = Number Integer
  | Variable String
  | Add Expr Expr
  deriving (Eq, Show)

eval :: Map.Map String Integer -> Expr -> Maybe Integer
eval _ (Number n) = Just n
eval env (Variable name) = Map.lookup name env
eval env (Add a b) = (+) <$> eval env a <*> eval env b

simplify :: Expr -> Expr
simplify (Add (Number 0) e) = simplify e
simplify (Add a b) = Add (simplify a) (simplify b)
simplify e = e

main :: IO ()
main = print $ eval (Map.fromList [("x", 41)]) (Add (Variable "x") (Number 1))
""",
    "schema.sql": """\
BEGIN;

CREATE TABLE customer (
    id         INTEGER PRIMARY KEY,
    name       VARCHAR(80) NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE purchase (
    id          INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customer (id) ON DELETE CASCADE,
    cents       BIGINT CHECK (cents > 0)
);

INSERT INTO customer (id, name) VALUES (1, 'Ada'), (2, 'Grace');

SELECT c.name, SUM(p.cents) AS total
FROM customer c LEFT JOIN purchase p ON p.customer_id = c.id
GROUP BY c.name HAVING COUNT(*) > 0 ORDER BY total DESC;

COMMIT;
""",
    "Makefile": """\
CC ?= cc
CFLAGS += -O2 -Wall -Wextra
OBJECTS := main.o stack.o

.PHONY: all clean test

all: stack

stack: $(OBJECTS)
	$(CC) $(LDFLAGS) -o $@ $^

%.o: %.c stack.h
	$(CC) $(CFLAGS) -c -o $@ $<

test: stack
	./stack | diff - expected.txt

clean:
	rm -f stack $(OBJECTS)
""",
    "Dockerfile": """\
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc make \\
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make all

FROM debian:bookworm-slim
COPY --from=build /src/stack /usr/local/bin/stack
USER nobody
EXPOSE 8000
ENTRYPOINT ["/usr/local/bin/stack"]
CMD ["--help"]
""",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.20)
project(queue LANGUAGES CXX)

set(CMAKE_CXX_STANDARD 20)
option(QUEUE_TESTS "Build the tests" ON)

add_library(queue STATIC src/queue.cpp)
target_include_directories(queue PUBLIC include)
target_compile_options(queue PRIVATE -Wall -Wextra)

if(QUEUE_TESTS)
  enable_testing()
  add_executable(queue_test test/queue_test.cpp)
  target_link_libraries(queue_test PRIVATE queue)
  add_test(NAME queue COMMAND queue_test)
endif()

install(TARGETS queue DESTINATION lib)
""",
    "fix.diff": """\
diff --git a/src/stack.c b/src/stack.c
index 3b18e51..9daeafb 100644
--- a/src/stack.c
+++ b/src/stack.c
@@ -9,7 +9,8 @@ typedef struct stack {
 static int push(stack *s, int item) {
     if (s->count == s->room) {
-        size_t room = 2 * s->room;
+        size_t room = s->room ? 2 * s->room : 8;
         int *grown = realloc(s->items, room * sizeof *grown);
+        if (grown == NULL) return -1;
         s->items = grown;
         s->room = room;
     }
""",
    "notebook.ipynb": """\
{
 "cells": [
  {"cell_type": "markdown", "metadata": {}, "source": ["# Rainfall\\n", "Monthly sums."]},
  {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [{"name": "stdout", "output_type": "stream", "text": ["78\\n"]}],
   "source": ["rain = [12, 40, 26]\\n", "print(sum(rain))"]}
 ],
 "metadata": {
  "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
  "language_info": {"name": "python", "version": "3.11.2"}
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
""",
    "film.srt": """\
1
00:00:01,000 --> 00:00:03,500
The boat was late again.

2
00:00:04,000 --> 00:00:06,250
- Did anyone wait?
- Nobody did.

3
00:00:07,100 --> 00:00:09,900
<i>The gulls answered for them.</i>
""",
    "film.vtt": """\
WEBVTT

1
00:00:01.000 --> 00:00:03.500 align:start
The boat was late again.

2
00:00:04.000 --> 00:00:06.250
<v Ada>Did anyone wait?

NOTE nobody did

3
00:00:07.100 --> 00:00:09.900
The gulls answered for them.
""",
    "meeting.ics": """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//example//corpus//EN
BEGIN:VEVENT
UID:20260105-1@example
DTSTAMP:20260101T080000Z
DTSTART:20260105T090000Z
DTEND:20260105T093000Z
SUMMARY:Morning round
LOCATION:Room 2
RRULE:FREQ=WEEKLY;BYDAY=MO
END:VEVENT
END:VCALENDAR
""",
    "de.po": """\
msgid ""
msgstr ""
"Project-Id-Version: station 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: src/main.c:12
msgid "Good morning"
msgstr "Guten Morgen"

#: src/main.c:20
#, c-format
msgid "%d boat left"
msgid_plural "%d boats left"
msgstr[0] "%d Boot abgefahren"
msgstr[1] "%d Boote abgefahren"
""",
    "route.proto": """\
syntax = "proto3";

package example.route;

option go_package = "example/route";

message Stop {
  string name = 1;
  double x = 2;
  double y = 3;
  repeated string lines = 4;
}

message RouteRequest {
  oneof start { string name = 1; Stop stop = 2; }
  map<string, int32> weights = 3;
}

service Routes {
  rpc Find(RouteRequest) returns (stream Stop);
}
""",
    "books.bib": """\
@book{stone2001,
  author    = {Stone, Mary},
  title     = {Bridges and Their Builders},
  publisher = {North Press},
  year      = {2001},
  isbn      = {0-000-00000-0}
}

@article{marsh2014,
  author  = {Marsh, Leo and Reader, Ann},
  title   = {Tides in Narrow Harbours},
  journal = {Coastal Notes},
  volume  = {12},
  number  = {3},
  pages   = {44--61},
  year    = {2014}
}
""",
    "fit.R": """\
library(stats)

rain <- data.frame(month = 1:12, mm = c(80, 62, 70, 55, 48, 40, 38, 45, 60, 75, 82, 90))

fit_season <- function(data, degree = 2) {
  model <- lm(mm ~ poly(month, degree), data = data)
  data$fitted <- predict(model)
  data
}

result <- fit_season(rain)
print(summary(result$fitted))
if (any(is.na(result$mm))) stop("there are gaps")
plot(result$month, result$mm, type = "b", col = "blue", xlab = "month", ylab = "mm")
lines(result$month, result$fitted, lty = 2)
for (i in seq_along(result$mm)) cat(i, result$mm[i], "\\n")
""",
    "hello.asm": """\
; prints a greeting with two system calls
global _start

section .data
message:    db  "good morning", 10
length:     equ $ - message

section .text
_start:
    mov     rax, 1          ; write
    mov     rdi, 1          ; to standard output
    mov     rsi, message
    mov     rdx, length
    syscall
    mov     rax, 60         ; exit
    xor     rdi, rdi
    syscall
""",
    "letter.eml": """\
From: Ada <ada@station.example>
To: Grace <grace@pier.example>
Subject: The boat on Monday
Date: Mon, 05 Jan 2026 09:12:00 +0000
Message-ID: <1@station.example>
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 7bit

Dear Grace,

the boat leaves at ten, not at nine. Please tell the others.

Ada
""",
    "letter.rtf": r"""{\rtf1\ansi\deff0{\fonttbl{\f0 Times New Roman;}}
{\colortbl;\red0\green0\blue255;}
\f0\fs24 Dear Grace,\par
\par
the boat leaves at {\b ten}, not at {\i nine}.\par
Please tell the others.\par
\cf1 Ada\cf0\par
}
""",
    "service.tcl": """\
package require Tcl 8.6

namespace eval station {
    variable readings [dict create]

    proc record {sensor value} {
        variable readings
        dict lappend readings $sensor $value
    }

    proc mean {sensor} {
        variable readings
        set values [dict get $readings $sensor]
        return [expr {[tcl::mathop::+ {*}$values] / double([llength $values])}]
    }
}

foreach {sensor value} {a 1 a 2 b 7} {
    station::record $sensor $value
}
puts "mean of a: [station::mean a]"
""",
    "letter.txt": "Dear Grace,\n\nthe boat leaves at ten on Monday, not at nine. The tide is late this week and the captain does not "
    "like to hurry. Please tell the others, and bring the blue umbrella: last time we were wet before we had left the "
    "harbour.\n\nWith kind regards,\nAda\n",
}
