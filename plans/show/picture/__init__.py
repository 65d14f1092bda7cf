"""Plans and programs as pictures: SVG of join trees and of the data flow between stages, and an HTML page around
them."""
