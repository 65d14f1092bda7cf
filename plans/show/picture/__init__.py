"""Plans and programs as pictures: SVG of join trees and of the flow between stages, and a page of HTML around them."""
