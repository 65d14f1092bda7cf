"""The relations of TPC-DS, for queries that a package brings along."""

from __future__ import annotations

_LETTERS = {"i": "int32", "l": "int64", "s": "string", "d": "date"}
_COLUMNS = """
call_center cc_call_center_sk:l cc_call_center_id:s cc_rec_start_date:d cc_rec_end_date:d cc_closed_date_sk:l
    cc_open_date_sk:l cc_name:s cc_class:s cc_employees:l cc_sq_ft:l cc_hours:s cc_manager:s cc_mkt_id:l
    cc_mkt_class:s cc_mkt_desc:s cc_market_manager:s cc_division:l cc_division_name:s cc_company:l cc_company_name:s
    cc_street_number:s cc_street_name:s cc_street_type:s cc_suite_number:s cc_city:s cc_county:s cc_state:s cc_zip:s
    cc_country:s cc_gmt_offset:5,2 cc_tax_percentage:5,2
catalog_page cp_catalog_page_sk:l cp_catalog_page_id:s cp_start_date_sk:l cp_end_date_sk:l cp_department:s
    cp_catalog_number:l cp_catalog_page_number:l cp_description:s cp_type:s
catalog_returns cr_returned_date_sk:l cr_returned_time_sk:l cr_item_sk:l cr_refunded_customer_sk:l
    cr_refunded_cdemo_sk:l cr_refunded_hdemo_sk:l cr_refunded_addr_sk:l cr_returning_customer_sk:l
    cr_returning_cdemo_sk:l cr_returning_hdemo_sk:l cr_returning_addr_sk:l cr_call_center_sk:l cr_catalog_page_sk:l
    cr_ship_mode_sk:l cr_warehouse_sk:l cr_reason_sk:l cr_order_number:l cr_return_quantity:l cr_return_amount:7,2
    cr_return_tax:7,2 cr_return_amt_inc_tax:7,2 cr_fee:7,2 cr_return_ship_cost:7,2 cr_refunded_cash:7,2
    cr_reversed_charge:7,2 cr_store_credit:7,2 cr_net_loss:7,2
catalog_sales cs_sold_date_sk:l cs_sold_time_sk:l cs_ship_date_sk:l cs_bill_customer_sk:l cs_bill_cdemo_sk:l
    cs_bill_hdemo_sk:l cs_bill_addr_sk:l cs_ship_customer_sk:l cs_ship_cdemo_sk:l cs_ship_hdemo_sk:l
    cs_ship_addr_sk:l cs_call_center_sk:l cs_catalog_page_sk:l cs_ship_mode_sk:l cs_warehouse_sk:l cs_item_sk:l
    cs_promo_sk:l cs_order_number:l cs_quantity:l cs_wholesale_cost:7,2 cs_list_price:7,2 cs_sales_price:7,2
    cs_ext_discount_amt:7,2 cs_ext_sales_price:7,2 cs_ext_wholesale_cost:7,2 cs_ext_list_price:7,2 cs_ext_tax:7,2
    cs_coupon_amt:7,2 cs_ext_ship_cost:7,2 cs_net_paid:7,2 cs_net_paid_inc_tax:7,2 cs_net_paid_inc_ship:7,2
    cs_net_paid_inc_ship_tax:7,2 cs_net_profit:7,2
customer c_customer_sk:l c_customer_id:s c_current_cdemo_sk:l c_current_hdemo_sk:l c_current_addr_sk:l
    c_first_shipto_date_sk:l c_first_sales_date_sk:l c_salutation:s c_first_name:s c_last_name:s
    c_preferred_cust_flag:s c_birth_day:l c_birth_month:l c_birth_year:l c_birth_country:s c_login:s
    c_email_address:s c_last_review_date:i
customer_address ca_address_sk:l ca_address_id:s ca_street_number:s ca_street_name:s ca_street_type:s
    ca_suite_number:s ca_city:s ca_county:s ca_state:s ca_zip:s ca_country:s ca_gmt_offset:5,2 ca_location_type:s
customer_demographics cd_demo_sk:l cd_gender:s cd_marital_status:s cd_education_status:s cd_purchase_estimate:l
    cd_credit_rating:s cd_dep_count:l cd_dep_employed_count:l cd_dep_college_count:i
date_dim d_date_sk:l d_date_id:s d_date:d d_month_seq:l d_week_seq:l d_quarter_seq:l d_year:l d_dow:l d_moy:l
    d_dom:l d_qoy:l d_fy_year:l d_fy_quarter_seq:l d_fy_week_seq:l d_day_name:s d_quarter_name:s d_holiday:s
    d_weekend:s d_following_holiday:s d_first_dom:l d_last_dom:l d_same_day_ly:l d_same_day_lq:l d_current_day:s
    d_current_week:s d_current_month:s d_current_quarter:s d_current_year:s
household_demographics hd_demo_sk:l hd_income_band_sk:l hd_buy_potential:s hd_dep_count:l hd_vehicle_count:i
income_band ib_income_band_sk:l ib_lower_bound:l ib_upper_bound:i
inventory inv_date_sk:l inv_item_sk:l inv_warehouse_sk:l inv_quantity_on_hand:i
item i_item_sk:l i_item_id:s i_rec_start_date:d i_rec_end_date:d i_item_desc:s i_current_price:7,2
    i_wholesale_cost:7,2 i_brand_id:l i_brand:s i_class_id:l i_class:s i_category_id:l i_category:s i_manufact_id:l
    i_manufact:s i_size:s i_formulation:s i_color:s i_units:s i_container:s i_manager_id:l i_product_name:s
promotion p_promo_sk:l p_promo_id:s p_start_date_sk:l p_end_date_sk:l p_item_sk:l p_cost:15,2 p_response_target:l
    p_promo_name:s p_channel_dmail:s p_channel_email:s p_channel_catalog:s p_channel_tv:s p_channel_radio:s
    p_channel_press:s p_channel_event:s p_channel_demo:s p_channel_details:s p_purpose:s p_discount_active:s
reason r_reason_sk:l r_reason_id:s r_reason_desc:s
ship_mode sm_ship_mode_sk:l sm_ship_mode_id:s sm_type:s sm_code:s sm_carrier:s sm_contract:s
store s_store_sk:l s_store_id:s s_rec_start_date:d s_rec_end_date:d s_closed_date_sk:l s_store_name:s
    s_number_employees:l s_floor_space:l s_hours:s s_manager:s s_market_id:l s_geography_class:s s_market_desc:s
    s_market_manager:s s_division_id:l s_division_name:s s_company_id:l s_company_name:s s_street_number:s
    s_street_name:s s_street_type:s s_suite_number:s s_city:s s_county:s s_state:s s_zip:s s_country:s
    s_gmt_offset:5,2 s_tax_percentage:5,2
store_returns sr_returned_date_sk:l sr_return_time_sk:l sr_item_sk:l sr_customer_sk:l sr_cdemo_sk:l sr_hdemo_sk:l
    sr_addr_sk:l sr_store_sk:l sr_reason_sk:l sr_ticket_number:l sr_return_quantity:l sr_return_amt:7,2
    sr_return_tax:7,2 sr_return_amt_inc_tax:7,2 sr_fee:7,2 sr_return_ship_cost:7,2 sr_refunded_cash:7,2
    sr_reversed_charge:7,2 sr_store_credit:7,2 sr_net_loss:7,2
store_sales ss_sold_date_sk:l ss_sold_time_sk:l ss_item_sk:l ss_customer_sk:l ss_cdemo_sk:l ss_hdemo_sk:l
    ss_addr_sk:l ss_store_sk:l ss_promo_sk:l ss_ticket_number:l ss_quantity:l ss_wholesale_cost:7,2
    ss_list_price:7,2 ss_sales_price:7,2 ss_ext_discount_amt:7,2 ss_ext_sales_price:7,2 ss_ext_wholesale_cost:7,2
    ss_ext_list_price:7,2 ss_ext_tax:7,2 ss_coupon_amt:7,2 ss_net_paid:7,2 ss_net_paid_inc_tax:7,2 ss_net_profit:7,2
time_dim t_time_sk:l t_time_id:s t_time:l t_hour:l t_minute:l t_second:l t_am_pm:s t_shift:s t_sub_shift:s
    t_meal_time:s
warehouse w_warehouse_sk:l w_warehouse_id:s w_warehouse_name:s w_warehouse_sq_ft:l w_street_number:s w_street_name:s
    w_street_type:s w_suite_number:s w_city:s w_county:s w_state:s w_zip:s w_country:s w_gmt_offset:5,2
web_page wp_web_page_sk:l wp_web_page_id:s wp_rec_start_date:d wp_rec_end_date:d wp_creation_date_sk:l
    wp_access_date_sk:l wp_autogen_flag:s wp_customer_sk:l wp_url:s wp_type:s wp_char_count:l wp_link_count:l
    wp_image_count:l wp_max_ad_count:i
web_returns wr_returned_date_sk:l wr_returned_time_sk:l wr_item_sk:l wr_refunded_customer_sk:l
    wr_refunded_cdemo_sk:l wr_refunded_hdemo_sk:l wr_refunded_addr_sk:l wr_returning_customer_sk:l
    wr_returning_cdemo_sk:l wr_returning_hdemo_sk:l wr_returning_addr_sk:l wr_web_page_sk:l wr_reason_sk:l
    wr_order_number:l wr_return_quantity:l wr_return_amt:7,2 wr_return_tax:7,2 wr_return_amt_inc_tax:7,2 wr_fee:7,2
    wr_return_ship_cost:7,2 wr_refunded_cash:7,2 wr_reversed_charge:7,2 wr_account_credit:7,2 wr_net_loss:7,2
web_sales ws_sold_date_sk:l ws_sold_time_sk:l ws_ship_date_sk:l ws_item_sk:l ws_bill_customer_sk:l
    ws_bill_cdemo_sk:l ws_bill_hdemo_sk:l ws_bill_addr_sk:l ws_ship_customer_sk:l ws_ship_cdemo_sk:l
    ws_ship_hdemo_sk:l ws_ship_addr_sk:l ws_web_page_sk:l ws_web_site_sk:l ws_ship_mode_sk:l ws_warehouse_sk:l
    ws_promo_sk:l ws_order_number:l ws_quantity:l ws_wholesale_cost:7,2 ws_list_price:7,2 ws_sales_price:7,2
    ws_ext_discount_amt:7,2 ws_ext_sales_price:7,2 ws_ext_wholesale_cost:7,2 ws_ext_list_price:7,2 ws_ext_tax:7,2
    ws_coupon_amt:7,2 ws_ext_ship_cost:7,2 ws_net_paid:7,2 ws_net_paid_inc_tax:7,2 ws_net_paid_inc_ship:7,2
    ws_net_paid_inc_ship_tax:7,2 ws_net_profit:7,2
web_site web_site_sk:l web_site_id:s web_rec_start_date:d web_rec_end_date:d web_name:s web_open_date_sk:l
    web_close_date_sk:l web_class:s web_manager:s web_mkt_id:l web_mkt_class:s web_mkt_desc:s web_market_manager:s
    web_company_id:l web_company_name:s web_street_number:s web_street_name:s web_street_type:s web_suite_number:s
    web_city:s web_county:s web_state:s web_zip:s web_country:s web_gmt_offset:5,2 web_tax_percentage:5,2
"""


def schema() -> dict[str, dict[str, str]]:
    """Returns the columns of each relation: name to type. A letter is a type, two numbers are a decimal's."""
    found: dict[str, dict[str, str]] = {}
    for line in _COLUMNS.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            found[words.pop(0)] = columns = {}
        for word in words:
            name, _, kind = word.partition(":")
            columns[name] = _LETTERS.get(kind) or f"decimal({kind})"
    return found
