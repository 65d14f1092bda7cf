"""A warehouse of a retailer, twelve tables, and the project of thirty materialized views over them.

Orders have lines, some lines are returned; customers live in cities, cities are in countries, countries in regions;
products are in categories and come from suppliers; orders are taken in stores, some under a promotion. ``loaded``
returns the tables, ``changed`` the changes of one night: new orders with their lines, new returns, and customers,
products and promotions with other values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

Tables = dict[str, pa.Table]

LINES_PER_ORDER, DAYS, FIRST_DAY = 4, 730, 19_000

VIEWS: dict[str, str] = {
    # prepared rows
    "places": "SELECT city, city_name, country_name, region_name FROM cities JOIN countries USING (country) "
    "JOIN regions USING (region)",
    "sold": "SELECT l.line, l.orders, l.product, l.pieces, CAST(l.pieces * l.price AS DECIMAL(14,2)) AS amount, "
    "o.customer, o.store, o.promotion, o.day FROM lines l JOIN orders o ON l.orders = o.id",
    "returned": "SELECT r.line, r.day AS returned_on, s.product, s.customer, s.store, s.amount, s.day "
    "FROM returns r JOIN sold s ON r.line = s.line",
    "kept": "SELECT s.* FROM sold s LEFT ANTI JOIN returns r ON s.line = r.line",
    "catalogue": "SELECT product, product_name, category_name, supplier_name, list FROM products "
    "JOIN categories USING (category) JOIN suppliers USING (supplier)",
    # sums
    "by_day": "SELECT day, COUNT(*) AS lines, SUM(amount) AS amount FROM sold GROUP BY day",
    "by_month": "SELECT date_trunc('MONTH', day) AS month, SUM(amount) AS amount, COUNT(DISTINCT customer) AS "
    "customers FROM sold GROUP BY date_trunc('MONTH', day)",
    "by_product": "SELECT product, SUM(pieces) AS pieces, SUM(amount) AS amount, MIN(day) AS first_sold, "
    "MAX(day) AS last_sold FROM sold GROUP BY product",
    "by_category": "SELECT category_name, SUM(p.amount) AS amount, COUNT(*) AS products FROM by_product p "
    "JOIN catalogue c ON p.product = c.product GROUP BY category_name",
    "by_supplier": "SELECT supplier_name, SUM(p.pieces) AS pieces FROM by_product p JOIN catalogue c "
    "ON p.product = c.product GROUP BY supplier_name",
    "by_store": "SELECT store, COUNT(DISTINCT orders) AS orders, SUM(amount) AS amount FROM sold GROUP BY store",
    "by_place": "SELECT region_name, country_name, SUM(amount) AS amount, COUNT(*) AS lines FROM sold s "
    "JOIN customers c ON s.customer = c.customer JOIN places p ON c.city = p.city GROUP BY region_name, country_name",
    "by_region": "SELECT region_name, SUM(amount) AS amount FROM by_place GROUP BY region_name",
    "by_segment": "SELECT segment, COUNT(DISTINCT s.customer) AS customers, SUM(amount) AS amount, "
    "SUM(CASE WHEN promotion IS NULL THEN 0 ELSE 1 END) AS promoted FROM sold s JOIN customers c "
    "ON s.customer = c.customer GROUP BY segment",
    "by_promotion": "SELECT promotion_name, COUNT(o.id) AS orders FROM promotions p LEFT JOIN orders o "
    "ON o.promotion = p.promotion GROUP BY promotion_name",
    # customers
    "spent": "SELECT customer, COUNT(DISTINCT orders) AS orders, SUM(amount) AS amount, MAX(day) AS last_order "
    "FROM kept GROUP BY customer",
    "regulars": "SELECT c.customer, c.customer_name, s.orders, s.amount FROM customers c JOIN spent s "
    "ON c.customer = s.customer WHERE s.orders >= 5",
    "lost": "SELECT c.customer, c.customer_name FROM customers c LEFT ANTI JOIN orders o ON c.customer = o.customer",
    "largest": "SELECT customer, customer_name, amount, segment FROM (SELECT c.customer, customer_name, segment, "
    "amount, RANK() OVER (PARTITION BY segment ORDER BY amount DESC) AS place FROM customers c JOIN spent s "
    "ON c.customer = s.customer) WHERE place <= 10",
    "above_average": "SELECT s.customer, s.amount, segment FROM spent s JOIN customers c ON s.customer = c.customer "
    "JOIN (SELECT segment AS of, AVG(CAST(amount AS DOUBLE)) AS usual FROM spent JOIN customers USING (customer) "
    "GROUP BY segment) ON segment = of WHERE CAST(s.amount AS DOUBLE) > 3 * usual",
    # returns
    "rates": "SELECT p.product, p.pieces, COALESCE(r.returns, 0) AS returns FROM by_product p LEFT JOIN "
    "(SELECT product, COUNT(*) AS returns FROM returned GROUP BY product) r ON p.product = r.product",
    "doubtful": "SELECT r.product, product_name, returns, pieces FROM rates r JOIN catalogue c ON r.product = "
    "c.product WHERE returns > 3 AND returns * 20 > pieces",
    "returns_by_store": "SELECT store, COUNT(*) AS returns, SUM(amount) AS amount FROM returned GROUP BY store",
    "late_returns": "SELECT line, customer, datediff(returned_on, day) AS days FROM returned "
    "WHERE datediff(returned_on, day) > 30",
    "losses": "SELECT b.store, b.amount, r.amount AS returned FROM by_store b JOIN returns_by_store r "
    "ON b.store = r.store",
    # what is odd
    "below_list": "SELECT l.line, l.product, l.price, p.list FROM lines l JOIN products p ON l.product = p.product "
    "WHERE l.price < p.list * 0.6",
    "unsold": "SELECT product, product_name FROM catalogue c WHERE NOT EXISTS "
    "(SELECT 1 FROM lines l WHERE l.product = c.product)",
    "empty_orders": "SELECT o.id, o.customer FROM orders o LEFT JOIN lines l ON o.id = l.orders WHERE l.line IS NULL",
    "pairs": "SELECT a.product, b.product AS other, COUNT(*) AS times FROM lines a JOIN lines b "
    "ON a.orders = b.orders WHERE a.product < b.product AND a.product < 200 AND b.product < 200 "
    "GROUP BY a.product, b.product",
    "everything": "SELECT 'sold' AS what, COUNT(*) AS n, SUM(amount) AS amount FROM sold UNION ALL "
    "SELECT 'returned', COUNT(*), SUM(amount) FROM returned",
}


def loaded(lines: int, seed: int = 7) -> Tables:
    """Returns the tables with about ``lines`` lines of orders."""
    rng = np.random.default_rng(seed)
    orders, customers, products = max(lines // LINES_PER_ORDER, 1), max(lines // 40, 5), max(lines // 100, 20)
    cities, countries, suppliers, stores, promotions = max(customers // 50, 5), 40, max(products // 20, 3), 50, 25
    made = {
        "regions": pa.table({"region": pa.array(range(5)), "region_name": _names("region", 5)}),
        "countries": pa.table(
            {
                "country": np.arange(countries),
                "country_name": _names("country", countries),
                "region": rng.integers(0, 5, countries),
            }
        ),
        "cities": pa.table(
            {
                "city": np.arange(cities),
                "city_name": _names("city", cities),
                "country": rng.integers(0, countries, cities),
            }
        ),
        "customers": _customers(rng, np.arange(customers), cities),
        "suppliers": pa.table({"supplier": np.arange(suppliers), "supplier_name": _names("supplier", suppliers)}),
        "categories": pa.table({"category": np.arange(30), "category_name": _names("category", 30)}),
        "products": pa.table(
            {
                "product": np.arange(products),
                "product_name": _names("product", products),
                "category": rng.integers(0, 30, products),
                "supplier": rng.integers(0, suppliers, products),
                "list": _money(rng.integers(100, 20_000, products)),
            }
        ),
        "stores": pa.table({"store": np.arange(stores), "city": rng.integers(0, cities, stores)}),
        "promotions": pa.table({"promotion": np.arange(promotions), "promotion_name": _names("promotion", promotions)}),
    }
    made["orders"] = _orders(rng, np.arange(orders), customers, 0)
    made["lines"] = _lines(rng, np.arange(orders), 0, made["products"])
    made["returns"] = _returns(rng, made["lines"], made["orders"], 0.03)
    return made


def changed(tables: Tables, share: float, seed: int) -> tuple[Tables, Tables]:
    """Returns the changes of a night in which ``share`` of the rows of each changed table are new: rows that are added,
    by table, and tables that are rewritten.
    """
    rng = np.random.default_rng(seed)
    first = tables["orders"].num_rows
    orders = np.arange(first, first + max(round(share * first), 1))
    added = {"orders": _orders(rng, orders, tables["customers"].num_rows, seed)}
    added["lines"] = _lines(rng, orders, tables["lines"].num_rows, tables["products"])
    few = tables["lines"].take(
        rng.integers(0, tables["lines"].num_rows, max(round(share * tables["lines"].num_rows), 1))
    )
    added["returns"] = _returns(rng, few, tables["orders"], 0.03)
    anew = {}
    for name, column in (("customers", "segment"), ("products", "list"), ("promotions", "promotion_name")):
        table = tables[name]
        values = table[column].to_pylist()
        for at in rng.integers(0, len(values), max(round(share * len(values)), 1)).tolist():
            values[at] = values[rng.integers(0, len(values))]
        position = table.column_names.index(column)
        anew[name] = table.set_column(position, column, pa.array(values, table[column].type))
    return added, anew


def _names(what: str, n: int) -> pa.Array:
    return pa.array([f"{what} {i}" for i in range(n)])


def _money(cents: np.ndarray) -> pa.Array:
    """Returns nonnegative int64 cents as decimals with two digits."""
    words = np.zeros((len(cents), 2), np.int64)  # of 128 bits, the low one first
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(10, 2), len(cents), [None, pa.py_buffer(words)])


def _days(days: np.ndarray) -> pa.Array:
    return pa.array((FIRST_DAY + days).astype(np.int32)).cast(pa.date32())


def _customers(rng: np.random.Generator, ids: np.ndarray, cities: int) -> pa.Table:
    return pa.table(
        {
            "customer": ids,
            "customer_name": pa.array([f"customer {i}" for i in ids.tolist()]),
            "city": rng.integers(0, cities, len(ids)),
            "segment": pa.array(["private", "shop", "office", "school"]).take(pa.array(rng.integers(0, 4, len(ids)))),
        }
    )


def _orders(rng: np.random.Generator, ids: np.ndarray, customers: int, later: int) -> pa.Table:
    days = DAYS + later % 1000 if later else 0
    some = rng.random(len(ids)) < 0.2
    return pa.table(
        {
            "id": ids,
            "customer": (customers * rng.random(len(ids)) ** 2).astype(np.int64),
            "store": rng.integers(0, 50, len(ids)),
            "promotion": pa.array(rng.integers(0, 20, len(ids)), mask=~some),
            "day": _days(np.full(len(ids), days) if later else rng.integers(0, DAYS, len(ids))),
        }
    )


def _lines(rng: np.random.Generator, orders: np.ndarray, first: int, products: pa.Table) -> pa.Table:
    of = np.repeat(orders, rng.integers(0, 2 * LINES_PER_ORDER + 1, len(orders)))
    product = (products.num_rows * rng.random(len(of)) ** 3).astype(np.int64)
    cents = rng.integers(50, 20_000, len(of))
    return pa.table(
        {
            "line": np.arange(first, first + len(of)),
            "orders": of,
            "product": product,
            "pieces": rng.integers(1, 9, len(of)),
            "price": _money(cents),
        }
    )


def _returns(rng: np.random.Generator, lines: pa.Table, orders: pa.Table, share: float) -> pa.Table:
    some = np.flatnonzero(rng.random(lines.num_rows) < share)
    if not len(some):
        some = np.arange(min(1, lines.num_rows))
    came_back = lines["line"].to_numpy()[some]
    bought = orders["day"].cast(pa.int32()).to_numpy()[lines["orders"].to_numpy()[some]] - FIRST_DAY
    return pa.table({"line": came_back, "day": _days(bought + rng.integers(1, 60, len(some)))})
